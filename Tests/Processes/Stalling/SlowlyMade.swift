import TestWorkloads

/// A global that takes long to make. Not in main.swift, where globals are made in order before they are used.
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
