"""XML feeds: RSS 0.9x to 2.0, RDF and Atom, with their extensions."""
