"""What the tests of the translator share: a tiny device, a runner of single instructions, exact reference arithmetic."""
