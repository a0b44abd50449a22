import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord

extension Engine {
  private static let patience = Duration.seconds(10)

  /// Captures all threads. Throws ``WatchdogError/Code/timedOut`` or ``WatchdogError/Code/stopped``.
  func captureStacks(timeout: Duration) throws(WatchdogError) -> (all: AllThreads, stacks: [Stack]) {
    let request = recorder.requestThreads(control)
    let deadline = clinux_clock_ns() &+ min(timeout, WatchLimits.longestTime).wholeNanoseconds
    guard let answer = request.answer.wait(until: deadline) else { throw .timedOut(after: timeout) }
    guard let threads = answer else { throw .stopped }
    return threads
  }

  /// Symbolizes on the calling thread.
  func dump(timeout: Duration) throws(WatchdogError) -> ProcessDump {
    let time = WallTime(nanosecondsSince1970: clinux_clock_wall_ns())
    let (all, stacks) = try captureStacks(timeout: timeout)
    var recording = Recording(process: recorder.process, stacks: stacks)
    let work = workUnderWay(all, &recording.stacks)
    recording.modules = ModuleList.covering(recording.stacks)
    let settings = ReportSettings(live.current)
    var dump = settings.builder(recording, settings.symbolizer(of: recording)).dump(all, work, at: time)
    dump.width.value = settings.width
    return dump
  }

  /// Adds the stacks of suspended tasks to `stacks`.
  private func workUnderWay(_ all: AllThreads, _ stacks: inout [Stack]) -> [WorkUnderWay] {
    var table = StackTable()
    let first = stacks.count
    var found: [WorkUnderWay] = []
    func add(_ work: WorkUnderWay, _ task: FollowedTask?) {
      var work = work
      if let task, let seen = task.whereabouts {
        if work.label.isEmpty { work.label = task.label }
        work.threadID = seen.threadID
        switch seen.state {
        case .runs: work.activity = .running
        case .isReady: work.activity = .enqueued
        case .isSuspended: work.activity = .suspended
        case .hasEnded: work.activity = .unknown
        }
        if !seen.frames.isEmpty { work.stack = first + table.place(of: Stack(frames: seen.frames, end: .outermost)) }
      }
      found.append(work)
    }
    let now = clinux_clock_ns()
    for (source, view, label) in SlotRegistry.shared.workUnderWay(at: now) {
      var work = WorkUnderWay(
        source: StallReport.Source(source),
        label: label,
        age: Duration(wholeNanoseconds: clinux_clock_between_ns(view.item, now)),
        threshold: view.limits.threshold_ns == .max ? nil : Duration(wholeNanoseconds: view.limits.threshold_ns)
      )
      if view.owner_kind == OBSERVER_OWNER_TASK {
        add(work, FollowedTask(view.owner.task, view.owner_task_id))
        continue
      }
      if view.owner_kind == OBSERVER_OWNER_WORD {
        work.threadID =
          view.owner.tid_address != 0
          ? observer_slot_owner(view.owner.tid_address) : view.thread.map { observer_thread_id($0) } ?? 0
      }
      // No thread has run the probe yet.
      if source.isProbed, work.threadID == 0 { work.activity = .enqueued }
      add(work, nil)
    }
    for (name, began, task) in activities.underWay {
      let age = Duration(wholeNanoseconds: clinux_clock_between_ns(began, now))
      let source = StallReport.Source(kind: .activity, name: name)
      add(WorkUnderWay(source: source, label: "", age: age, threshold: nil), task)
    }
    if TaskProbe.shared.hasFound {
      let known = Set(found.map(\.threadID))
      for thread in all.threads.map(\.thread) where !known.contains(thread.id) {
        guard let task = FollowedTask(on: thread.id), !task.label.isEmpty else { continue }
        let source = StallReport.Source(kind: .task, name: thread.name)
        var work = WorkUnderWay(source: source, label: task.label, age: nil, threshold: nil)
        work.threadID = thread.id
        found.append(work)
      }
    }
    stacks += table.stacks
    return found
  }

  /// `runtime` is the directory of the socket if stalls are not saved.
  func startControlSocket(_ runtime: String?) {
    guard live.initial.control.isEnabled else { return }
    guard let directory = box?.directory ?? runtime else {
      problems.note("control: no socket, because neither a directory for stalls nor XDG_RUNTIME_DIR is set")
      return
    }
    let socket = ControlSocket(directory: directory, problems) { [weak self] in
      self?.answer($0) ?? Array("-\(WatchdogError.stopped)".utf8)
    }
    do throws(WatchdogError) { try socket.start() } catch {
      problems.note("control: no socket: \(error.message)")
      return
    }
    controlSocket.withLock { $0 = socket }
  }

  func answer(_ request: String) -> [UInt8] {
    let words = request.split(separator: " ")
    let settings = ReportSettings(live.current)
    if let obstacle = MemoryRoom.obstacle(names: settings.symbolMemory) {
      return Array("-the process has too little memory: \(obstacle)".utf8)
    }
    do {
      switch (words.first, words.last.flatMap { Int($0) }) {
      case ("dump", let width?): return Array("+\(try dump(timeout: Self.patience).text(width: width))".utf8)
      case ("dump", nil): return Array("+\(try dump(timeout: Self.patience).json())\n".utf8)
      case ("stalls", _): return try stallsSoFar(settings)
      default: return Array("-unknown request: the command and the library have different versions".utf8)
      }
    } catch {
      return Array("-\(error)".utf8)
    }
  }

  /// Returns the stalls under way as `.stall` files, each after a line with its length.
  private func stallsSoFar(_ settings: ReportSettings) throws(WatchdogError) -> [UInt8] {
    let deadline = clinux_clock_ns() &+ Self.patience.wholeNanoseconds
    guard let stalls = recorder.requestSoFar().stalls.wait(until: deadline) else {
      throw .timedOut(after: Self.patience)
    }
    var bytes = [UInt8(ascii: "+")]
    for var recording in stalls.map(\.recording) {
      // Symbolized here: the command might not see a container's files.
      let symbolizer = settings.symbolizer(of: recording)
      for frame in recording.stacks.lazy.flatMap(\.frames) where recording.names[frame.lookupAddress] == nil {
        clinux_fork_yield()
        recording.names[frame.lookupAddress] = symbolizer.resolve(frame)
      }
      let file = StallFileWriter.file(of: recording)
      bytes += Array("\(file.count)\n".utf8) + file
    }
    return bytes
  }
}
