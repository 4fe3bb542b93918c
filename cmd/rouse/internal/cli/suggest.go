package cli

import "strings"

// SuggestName returns a hint: the offered word that is closest to a misspelt one, or all words.
func SuggestName(word string, offered []string) string {
	best, least := "", 3
	for _, o := range offered {
		if d := EditDistance(strings.ReplaceAll(strings.ToLower(word), "_", "-"), o); d < least ||
			strings.HasPrefix(o, word) && best == "" {
			best, least = o, min(d, least)
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	return "there are " + strings.Join(offered, ", ")
}

// EditDistance returns the edit distance of a and b.
func EditDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
