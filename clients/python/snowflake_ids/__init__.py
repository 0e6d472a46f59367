"""64-bit, time-ordered, unique ids of the PostgreSQL extension snowflake, made by the program."""
from .blocks import SnowflakeIds
from .lease import SnowflakeLease

__all__ = ["SnowflakeIds", "SnowflakeLease"]
__version__ = "1.0.0"
