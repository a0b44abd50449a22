import CulpritBlackBox

/// Reads any bytes as the record of a run, writes the record, and reads it again.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzRun(_ data: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
  let bytes = (0..<count).map { data[$0] }
  guard var run = RunRecord(text: String(decoding: bytes, as: UTF8.self)) else { return 0 }
  _ = RunVerdict(
    of: run,
    hasOpenStall: true,
    hasOpenHang: false,
    boot: run.identity.boot,
    memoryKills: .none,
    wasReplaced: false
  )
  // `text` excludes these lines, which other code appends.
  (run.crash, run.ended, run.told) = (nil, nil, nil)
  guard RunRecord(text: run.text) == run else { fatalError("the written record cannot be read") }
  return 0
}
