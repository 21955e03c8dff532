package mutants

var ofLedger []mutant
