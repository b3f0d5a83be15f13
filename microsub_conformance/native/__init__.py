"""The Google Reader API: checks of any server of the dialect that native apps speak.

It has no specification. Each requirement is what some app's own code relies on, and names that app and file. In this
order: `apps`, `world`, then the modules with checks.
"""
