package depth

import "testing"

func TestALongRunIsLongWithAndWithoutTheRaceDetector(t *testing.T) {
	t.Setenv(Variable, "")
	want := "plain"
	if Raced() || testing.Short() {
		want = "raced"
	}
	if got := Of("raced", "plain", "long"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	t.Setenv(Variable, "1")
	if got := Of("raced", "plain", "long"); got != "long" {
		t.Errorf("got %s in a long run", got)
	}
}
