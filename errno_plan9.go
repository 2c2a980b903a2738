package retrip

// No error is an errno here: Plan 9's errors are texts, which may hold
// anything, a path for example.
type errno struct{ error }
