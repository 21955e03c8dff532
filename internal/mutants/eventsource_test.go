package mutants

var ofEventSource []mutant
