"""stub"""
def add_page(service): pass
