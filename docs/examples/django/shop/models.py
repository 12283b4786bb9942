from django.db import models, transaction


class Product(models.Model):
    name = models.CharField(max_length=50)
    stock = models.IntegerField()


def buy(product_id, amount, lock):
    """Takes from the stock if there is enough. Returns what was taken."""
    with transaction.atomic():
        products = Product.objects.select_for_update() if lock else Product.objects
        product = products.get(pk=product_id)
        if product.stock < amount:
            return 0
        product.stock -= amount
        product.save(update_fields=["stock"])
        return amount
