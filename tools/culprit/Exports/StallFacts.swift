import CulpritBlame
import CulpritStallRecord

extension ExportedStall {
  var facts: JSONObject {
    var facts = JSONObject()
    facts.add("id", id)
    facts.add("source", source)
    facts.add("process", recording.processName)
    facts.add("began", stall.began.text(decimals: 9))
    facts.add("durationMs", json: decimal(profile.duration, 6))
    facts.add("thresholdMs", json: decimal(stall.threshold.wholeNanoseconds, 6))
    facts.add("hasEnded", stall.hasEnded)
    if let culprit {
      facts.add("culprit", culprit)
      facts.add("share", json: decimal(share: blame?.culprit?.share ?? 0))
    }
    return facts
  }

  /// The causes as codes of reports, with shares.
  var causes: JSONObject {
    var causes = JSONObject()
    for cause in blame?.causes ?? [] { causes.add(cause.kind.rawValue, json: decimal(share: cause.share)) }
    return causes
  }

  /// Phases with one dominant function each. Empty if one function dominates the whole stall.
  var phases: [(begin: UInt64, end: UInt64, function: String)] {
    (blame?.timeline ?? []).map { stretch in
      let name = stretch.culprit.map { visible($0.function.name) }
      let function = name ?? "no application function"
      return (stretch.begin.wholeNanoseconds, stretch.end.wholeNanoseconds, function)
    }
  }

  /// Age of the work when the stall became a hang, in nanoseconds.
  var hangAge: UInt64? { stall.notes.last { $0.kind == .hang }?.time.wholeNanoseconds }
}
