"""Moving a broker name from Apache's broker to this one while clients go on, and back."""
