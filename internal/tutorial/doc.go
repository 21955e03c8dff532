// Tutorial follows docs/getting-started.md as a reader does: from an empty folder, with the blocks
// of the page and nothing else. It fails if a command fails, if the page promises output that does
// not come, or if the page has a block that it does not understand.
//
//	make tutorial                              # or: go run ./internal/tutorial
//	go run ./internal/tutorial -page FILE -v   # another page, with the commands and their output
//
// A page is Markdown with three kinds of blocks. Each must have its language:
//
//   - A go block is a file. The line before the block names it: `main.go`:
//   - A sh block is typed into a terminal, which the line before it names: "In terminal 2:". Each
//     terminal is a shell that keeps its folder and variables. A block must end, with exit code 0,
//     before the next one begins, unless the line says "In terminal 2 (keeps running):".
//   - A text block is what the sh block before it prints. Its lines must come in this order; other
//     lines may come between them, and "..." in a line stands for anything.
//
// A line "Press Ctrl-C in terminal 2" ends what keeps running there; it must end with exit code 0.
// It is then started again, and must end so with SIGTERM, too: it must have a text block, which
// says when it is ready.
//
// The page names published modules. They are served from this checkout instead, packed as the
// versions of a module proxy in a folder, so that every command runs as it is printed.
//
// # Concurrency
//
// It is a program. Several can run at the same time.
//
// # What it does not do
//
// It does not empty the caches of the go command: the first build of a reader takes longer.
//
// # Debugging
//
// With -v it prints what it types and what comes back. With -keep it leaves the reader's folder.
package main
