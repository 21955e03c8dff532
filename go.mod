module github.com/evenkeel/evenkeel

go 1.26.0
