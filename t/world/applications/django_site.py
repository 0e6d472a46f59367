# Django's own applications, with integer keys, used by their administration site: add a
# group, and users who belong to it.  Prints what the site then lists.
import os
import re
import sys
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="none", USE_TZ=True, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__,
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib." + app for app in ("admin", "auth", "contenttypes", "messages", "sessions")],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True,
                "OPTIONS": {"context_processors": ["django.template.context_processors.request",
                                                   "django.contrib.auth.context_processors.auth",
                                                   "django.contrib.messages.context_processors.messages"]}}])
django.setup()

from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.urls import path

urlpatterns = [path("admin/", admin.site.urls)]
this = sys.argv[1]
if this == "1":
    call_command("migrate", verbosity=0)
    User.objects.create_superuser("root", password="none")
client = Client()
client.force_login(User.objects.get(username="root"))


def post(page, **form):
    answer = client.post(f"/admin/auth/{page}", form)
    assert answer.status_code == 302, re.findall(r"error.*", answer.content.decode())


post("group/add/", name=f"group {this}", permissions=["1", "2"])
group = Group.objects.get(name=f"group {this}")
for number in range(10):
    name = f"user{this}{number}"
    post("user/add/", username=name, password1="A-long-1", password2="A-long-1")
    user = User.objects.get(username=name)
    post(f"user/{user.pk}/change/", username=name, groups=[group.pk], is_active="on",
         date_joined_0="2026-11-01", date_joined_1="00:00:00", initial_date_joined_0="2026-11-01",
         initial_date_joined_1="00:00:00")
listed = re.search(r"(\d+) users", client.get("/admin/auth/user/").content.decode())
print(listed[1], "users,", Group.objects.count(), "groups,", User.objects.filter(groups__name__startswith="group").count(), "members")
