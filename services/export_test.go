package services

// Hosts are the names that ByHost knows.
func Hosts() (names []string) {
	for _, h := range hosts {
		names = append(names, h.name)
	}
	return names
}
