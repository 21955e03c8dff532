package mutants

var ofFramework []mutant
