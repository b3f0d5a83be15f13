"""What Redis keeps of people's identity: sessions, sign-ins under way, codes, grants, credentials, tokens of others."""
