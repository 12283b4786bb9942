import os
SECRET_KEY = "test"
INSTALLED_APPS = ["shop"]
USE_TZ = True
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ.get("PGDATABASE", "weakdb"),
    "HOST": os.environ.get("PGHOST", "127.0.0.1"),
    "PORT": os.environ.get("PGPORT", "5432"),
    "USER": os.environ.get("PGUSER", "postgres"),
}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
