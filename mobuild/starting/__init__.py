"""What a trained model's file tells of itself, and the recipe that begins at it.

Files are looked into and never run: archives by their listing, pickles by their opcodes, Python by its syntax.
"""
