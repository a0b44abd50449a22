// An async function that blocks halfway, on the thread of its caller.

@inline(never) func keep(_ value: Int) {
  sink += value
}

@inline(never) func waiting(_ number: Int) async -> Int {
  keep(number)
  churn(1)
  let result = Int(block_nanosleep())
  keep(result)
  return result + number
}

@inline(never) func outer(_ number: Int) async -> Int {
  let result = await waiting(number + 1)
  keep(result)
  return result + 1
}

@_cdecl("site_count") func siteCount() -> Int32 { 1 }

@_cdecl("site_run") func siteRun(_ number: Int32) -> Int32 {
  let number = Int(number)
  Task.immediate {
    let result = await outer(number)
    keep(result)
  }
  return 1
}
