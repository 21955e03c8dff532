package mutants

var ofStore []mutant
