// Zooming into the picture of name scopes.
