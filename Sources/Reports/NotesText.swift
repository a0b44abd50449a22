import CulpritStallRecord

extension ReportSections {
  package var observed: ReportSection? {
    let cost = report.cost
    guard cost.stacksFromOutside + cost.stacksBySignal + cost.withoutStack > 0 else { return nil }
    var parts = ["\(Formatting.count(cost.stacksFromOutside, "stack")) read from outside"]
    if cost.stacksBySignal > 0 {
      parts.append(
        "\(cost.stacksBySignal) by signal, at most \(Formatting.duration(cost.longestHandlerTime)) in a handler and "
          + "\(Formatting.duration(cost.handlerTime)) in all"
      )
    }
    guard isFull else {
      let signalled = cost.stacksBySignal > 0 ? ", handlers took \(Formatting.duration(cost.handlerTime))" : ""
      let count = cost.stacksFromOutside + cost.stacksBySignal
      let unwinding = "\(Formatting.duration(cost.unwindTime)) of unwinding beside the service"
      return ReportSection("COST", ["\(Formatting.count(count, "stack"))\(signalled), \(unwinding)"])
    }
    if cost.withoutStack > 0 { parts.append("\(Formatting.count(cost.withoutStack, "look")) without a stack") }
    parts.append("\(Formatting.duration(cost.unwindTime)) of unwinding on a thread of Culprit's own")
    return ReportSection("COST", [parts.joined(separator: "; ")])
  }

  package var notes: ReportSection? {
    var notes: [String] = []
    for note in self.notes(of: .hang) { notes.append("a hang from \(Formatting.duration(note.time)) on") }
    for note in self.notes(of: .debugger) {
      notes.append("a debugger was attached\(note.text.isEmpty ? "" : ": \(sentence(note))")")
    }
    if let note = self.notes(of: .unwatched).last {
      notes.append(
        "the first \(Formatting.duration(note.time)), before the watchdog started, are not attributed"
      )
    }
    if !self.notes(of: .likely).isEmpty {
      notes.append(
        "likely one job: without perf_event_open, a suspension from which the task resumes at once is not visible"
      )
    }
    if report.repeats > 0 {
      notes.append(
        "\(Formatting.count(report.repeats, "more stall")) of the same culprit were counted, not reported"
      )
    }
    let evidence = report.evidence
    for found in evidence.noStack {
      notes.append("\(Formatting.count(found.count, "sample")) without a stack: \(found.reason)")
    }
    for found in evidence.missingCallers {
      let whose = found.count == 1 ? "1 stack without its" : "\(found.count) stacks without their"
      notes.append("\(whose) outermost callers: \(found.reason)")
    }
    if evidence.completedCount > 0 {
      notes.append("\(evidence.completedCount) of these completed from similar stacks nearby in time")
    }
    let counted = [
      (
        evidence.joinedCount, "stack",
        "joined: the outermost callers are from an earlier stack at the same addresses"
      ),
      (evidence.unknownCallersCount, "stack", "with async callers without a name, which are omitted"),
      (evidence.omittedCount, "more sample", "omitted evenly; the shown samples stand for them"),
      (Int(clamping: evidence.lostCount), "sample", "lost: the recorder or the disk could not keep up"),
      (evidence.skippedCount, "sample", "skipped to stay within the CPU budget: much other work was late"),
    ]
    for (count, noun, rest) in counted where count > 0 {
      notes.append("\(Formatting.count(count, noun)) \(rest)")
    }
    if evidence.isDamaged { notes.append("the file was cut off or damaged: samples may be missing") }
    if evidence.unobserved > .zero {
      notes.append("\(Formatting.duration(evidence.unobserved)) without samples are not attributed")
    }
    if evidence.gap > .zero {
      notes.append("\(Formatting.duration(evidence.gap)) in which the process could not run are excluded")
    }
    notes += report.missingNames
    return ReportSection("NOTES", notes)
  }
}
