"""Sign-in at an OpenID Connect provider: authorization code flow with PKCE, state and nonce."""
