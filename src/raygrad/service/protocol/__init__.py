"""What both sides of a service share: messages, the connections that carry them, and the closed data model of values.

Nothing here knows which side it is on."""
