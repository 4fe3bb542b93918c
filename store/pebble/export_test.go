package pebble

// For the tests of package pebble_test, which use what imports this package.
var (
	OpenShaped = openShaped
	OwnShapes  = shapes
)
