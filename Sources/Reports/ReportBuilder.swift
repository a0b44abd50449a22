@_exported import CulpritBlame
import CulpritStallRecord

/// Creates reports with their complete content. Texts and exports only print the content.
package struct ReportBuilder {
  let recording: Recording
  package let rules: OwnershipRules
  package let resolve: (StackFrame) -> [ResolvedFrame]
  let architecture: String

  package init(
    _ recording: Recording,
    rules: OwnershipRules = OwnershipRules(),
    architecture: String = "",
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    self.recording = recording
    self.rules = rules
    self.resolve = resolve
    self.architecture = recording.process?.architecture ?? architecture
  }

  package func analysis(of stall: Stall) -> StallReport {
    StallReport(
      of: stall,
      in: recording,
      rules: rules,
      architecture: architecture,
      resolve: resolve
    )
  }

  /// Adds other threads and display names to an analysis.
  package func complete(_ analysis: StallReport, repeats: Int = 0) -> StallReport {
    var report = analysis
    report.repeats = repeats
    report.otherThreads = report.raw.stall.others.map(groups(of:))
    FunctionNames(report).name(&report)
    return report
  }

  package func report(of stall: Stall) -> StallReport { complete(analysis(of: stall)) }

  package func lastStacks(of stall: Stall, count: Int = 10) -> [StallReport.TimedStack] {
    let stacks = stall.samples.suffix(count)
      .map { sample in
        let frames = sample.stack.map { recording.stacks[$0].frames } ?? []
        return (sample.age, frames.flatMap(resolve).namingMergedFunctions())
      }
    let names = FunctionNames(stacks.flatMap(\.1))
    return stacks.map { age, frames in
      StallReport.TimedStack(ageSeconds: Seconds(age), functions: frames.map { names.function($0, rules) })
    }
  }

  /// Returns a function that converts frames and uses the names of `report`.
  package func functions(of report: StallReport) -> (ResolvedFrame) -> StallReport.Function {
    let names = FunctionNames(report)
    return { names.function($0, rules) }
  }

  package func activity(_ activity: ThreadActivity) -> StallReport.Activity {
    StallReport.Activity(activity, architecture)
  }

  package func dump(_ all: AllThreads, _ work: [WorkUnderWay], at time: WallTime) -> ProcessDump {
    // Work without a thread is grouped like threads, with its index as the thread ID.
    let waiting = work.indices.filter { work[$0].threadID == 0 }
      .map { place in
        ThreadSample(
          thread: ObservedThread(id: Int32(place), name: ""),
          stack: work[place].stack,
          outcome: .captured,
          cpuTime: nil,
          activity: work[place].activity
        )
      }
    var threads = groups(of: all)
    var groups = groups(of: AllThreads(threads: waiting)).groups
    let names = FunctionNames((threads.groups + groups).flatMap(\.functions).compactMap(\.frame))
    threads.rename(names)
    for place in groups.indices { groups[place].functions.rename(names) }
    let running = Dictionary(grouping: work.filter { $0.threadID != 0 }, by: \.threadID).ordered { $0.key < $1.key }
    return ProcessDump(
      process: recording.process.map { StallReport.Process($0, recording.modules) },
      time: StallReport.Timestamp(time),
      threads: threads,
      work: running.map { id, work in
        let thread = all.threads.first { $0.thread.id == id }
        return ProcessDump.Group(
          work: work.map { ProcessDump.Work($0, thread?.thread ?? ObservedThread(id: id, name: "")) },
          activity: activity(thread?.activity ?? .unknown),
          functions: []
        )
      }
        + groups.map { group in
          ProcessDump.Group(
            work: group.threads.map { work[Int($0.id)] }.ordered { ($0.age ?? .zero) > ($1.age ?? .zero) }
              .map { ProcessDump.Work($0, nil) },
            activity: group.activity,
            functions: group.functions
          )
        }
    )
  }

  package func threads(of all: AllThreads) -> ThreadsReport {
    var threads = groups(of: all)
    threads.rename(FunctionNames(threads.groups.flatMap(\.functions).compactMap(\.frame)))
    return threads
  }

  private func groups(of all: AllThreads) -> ThreadsReport {
    ThreadsReport(all, stacks: recording.stacks, rules: rules, architecture: architecture, resolve: resolve)
  }
}
