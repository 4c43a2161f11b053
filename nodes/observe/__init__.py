"""World kinds (slot ``env``): each world's params, page view and wording of past steps."""
