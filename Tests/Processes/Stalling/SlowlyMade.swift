import TestWorkloads

/// A global with a slow lazy initializer. Globals of main.swift are initialized at the start.
let slowlyMade = makeSlowly()

@inline(never)
func makeSlowly() -> Int {
  workload_hold()
  return 7
}

@inline(never)
func useWhatIsSlowlyMade() -> Int { slowlyMade + 1 }

@inline(never)
func awaitWhatIsSlowlyMade() -> Int { slowlyMade + 2 }
