"""How sure the policy is, token by token: tensors in, tensors out.

`formula` defines self-certainty; `head` computes it through a model, where `tiles` does the arithmetic and `logits`
knows what the model does to its logits; `profile` summarises a response's sorted certainties by windows.
"""
