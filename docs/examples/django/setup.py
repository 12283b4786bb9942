import os
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
import django
django.setup()
from django.db import connection
from shop.models import Product
with connection.schema_editor() as editor:
    editor.create_model(Product)
Product.objects.create(pk=1, name="tea", stock=5)
