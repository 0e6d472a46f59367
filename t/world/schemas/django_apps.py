# The schema of a project with Django's own applications and others, with integer keys, as
# they were made before Django 3.2
import os
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    SECRET_KEY="none", USE_TZ=True, SITE_ID=1,
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=["django.contrib." + app for app in (
        "admin", "auth", "contenttypes", "flatpages", "messages", "redirects", "sessions", "sites")] + [
        "allauth", "allauth.account", "allauth.socialaccount", "axes", "django_celery_beat",
        "django_celery_results", "guardian", "oauth2_provider", "rest_framework.authtoken", "reversion", "taggit"])
django.setup()
call_command("migrate", verbosity=0)
