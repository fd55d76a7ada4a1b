"""Chat templates in the style of known models', and chats for them, for make_jinja_fixtures.py."""

TEMPLATES = []


def cases():
    return []
