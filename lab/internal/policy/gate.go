package policy

import "github.com/retrip-go/retrip"

func gated() *retrip.Strategy { return retrip.Gated() }
