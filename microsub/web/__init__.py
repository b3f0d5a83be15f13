"""The pages for people: plain HTML that works without JavaScript, and no file from elsewhere."""
