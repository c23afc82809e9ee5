"""Who may use a host from another machine: its certificates, its guests' tokens, what is logged of them (docs/explanation/security.md)."""
