import ChildProcesses
import CulpritOptions
import Glibc
import Judges
import SplitMix
import StressHarm
import Synchronization

/// Looks after the service from outside: starts it, stops and signals it, takes the processors away from it, and counts
/// what it tells.
final class Supervisor {
  private let seconds: Int
  private let seed: UInt64
  private let without: Set<String>
  private let faults: Set<String>
  private let figures: Figures
  private var random: SplitMix
  private var counts: [Event: Int] = [:]
  private var acts: [String: Int] = [:]
  private var errors: [String: Int] = [:]
  /// Calls that returned early when SIGSTOP had interrupted them.
  private var early: UInt64 = 0
  private var outside: [String: Int] = [:]
  private var hogs: [(process: pid_t, until: UInt64)] = []

  /// What there is.
  static let names = ["stop", "signal", "foreign_profile", "foreign_signals", "hogs", "clock"]

  init(seconds: Int, seed: UInt64, without: Set<String>, faults: Set<String>, _ figures: Figures) {
    (self.seconds, self.seed, self.without, self.faults, self.figures) = (seconds, seed, without, faults, figures)
    random = SplitMix(seed).derived(1000)
  }

  /// Runs the stress and prints what came of it.
  func run() throws {
    figures.note("seed \(seed)")
    var template = Array("/tmp/culprit-stress-XXXXXX".utf8CString)
    guard mkdtemp(&template) != nil else { throw SpawnError("mkdtemp", errno) }
    let directory = String(decoding: template.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    defer { _ = try? Spawn.end(Spawn.process("/bin/rm", ["rm", "-rf", directory])) }
    guard let shared = stress_share(directory + "/shared") else { throw SpawnError(directory, errno) }
    if Plugins(in: directory) == nil { figures.note("no libraries are loaded: there is neither clang nor cc") }
    if without.contains("clock") {
      figures.note("the clock is not stepped, which is the whole machine's: --step-clock does")
    }
    let end = stress_now_ns() + UInt64(seconds) * 1_000_000_000
    var launches = 0
    while stress_now_ns() + 1_000_000_000 < end || launches == 0 {
      launches += 1
      let left = max(1, (end &- min(end, stress_now_ns())) / 1_000_000_000)
      try supervise(after: directory, shared, Int(left), seed &+ UInt64(launches - 1))
    }
    for hog in hogs { endHog(hog.process) }
    printFigures(launches)
  }

  // MARK: One launch of the service

  private func supervise(
    after directory: String,
    _ shared: UnsafeMutablePointer<stress_shared>,
    _ seconds: Int,
    _ seed: UInt64
  ) throws {
    let output = try Spawn.pipe()
    defer { close(output.reading) }
    let words = [
      ownPath, "--service", directory, "--seconds", "\(seconds)", "--seed", "\(seed)",
      "--without", without.subtracting(["clock"]).joined(separator: ","), "--with", faults.joined(separator: ","),
    ]
    let service: pid_t
    do {
      defer { close(output.writing) }
      service = try Spawn.process(ownPath, words, output: output.writing)
    }
    var unread: [UInt8] = []
    var lastActs: [String: Int] = [:]
    var isDone = false
    var lastAct = "nothing"
    var (beats, beatAt, nextHarm) = (stress_beats(shared), stress_now_ns(), stress_now_ns() + 500_000_000)
    var isOpen = true
    while isOpen {
      var entry = pollfd(fd: output.reading, events: Int16(POLLIN), revents: 0)
      if poll(&entry, 1, 20) > 0 {
        var chunk = [UInt8](repeating: 0, count: 64 << 10)
        let count = read(output.reading, &chunk, chunk.count)
        isOpen = count > 0
        unread += chunk.prefix(max(0, count))
        while let newline = unread.firstIndex(of: 10) {
          let line = String(decoding: unread[..<newline], as: UTF8.self)
          unread.removeFirst(newline + 1)
          hear(line, &lastActs, &isDone, &lastAct)
        }
      }
      let now = stress_now_ns()
      early = stress_early(shared)
      if stress_beats(shared) != beats { (beats, beatAt) = (stress_beats(shared), now) }
      if now - beatAt > 120_000_000_000 {
        fail("the service gave no sign of life for two minutes, after \(lastAct)")
        kill(service, SIGKILL)
        beatAt = now
      }
      if now > nextHarm, !isDone, isOpen {
        harm(service, shared)
        nextHarm = stress_now_ns() + UInt64(random.number(20...1500)) * 1_000_000
      }
      for hog in hogs where hog.until < now { endHog(hog.process) }
    }
    let status = Spawn.end(service) ?? -1
    if status != 0 || !isDone {
      fail("the service ended with \(status) after \(lastAct)")
      // Whoever was stalled then could not be reported any more.
      let judged = [Event.named, .unnamed, .void].reduce(0) { $0 + counts[$1, default: 0] }
      counts[.void, default: 0] += max(0, counts[.stall, default: 0] - judged - counts[.false, default: 0])
    }
    for (act, count) in lastActs { acts[act, default: 0] += count }
  }

  private func hear(_ line: String, _ lastActs: inout [String: Int], _ isDone: inout Bool, _ lastAct: inout String) {
    let words = line.split(separator: " ", maxSplits: 1)
    guard let event = words.first.flatMap({ Event(rawValue: String($0)) }) else { return figures.note(line) }
    let text = words.count > 1 ? String(words[1]) : ""
    counts[event, default: 0] += 1
    switch event {
    case .acts:
      guard text.contains("=") else {
        lastAct = text
        return
      }
      for part in text.split(separator: " ") {
        let fields = part.split(separator: "=")
        if fields.count == 2 { lastActs[String(fields[0])] = Int(fields[1]) }
      }
    case .error: fail(text)
    case .false, .unnamed: figures.note("\(event.rawValue): \(text.replacing(" | ", with: "\n#   "))")
    case .void, .excused: figures.note("\(event.rawValue): \(text)")
    case .done:
      isDone = true
      figures.note("the service: \(text)")
    case .stall, .named, .later: break
    }
  }

  private func fail(_ text: String) {
    // The same is told a few times, and counted.
    let kind = text.replacing(/[0-9]+/, with: "N")
    errors[kind, default: 0] += 1
    if errors[kind, default: 0] <= 3 { figures.note("error: \(text)") }
  }

  // MARK: Harm from outside

  /// Whether the service has the default action for `signal` at times, while it sends none to itself.
  private func isFatalAtTimes(_ signal: Int32) -> Bool { signal == SIGPIPE }

  private func harm(_ service: pid_t, _ shared: UnsafeMutablePointer<stress_shared>) {
    let all = Self.names.filter { !without.contains($0) }
    guard !all.isEmpty else { return }
    let act = all[random.number(0...all.count - 1)]
    outside[act, default: 0] += 1
    switch act {
    case "stop":
      let time = random.isOnce(in: 10) ? random.number(1000...3000) : random.number(1...300)
      let began = stress_now_ns()
      kill(service, SIGSTOP)
      usleep(UInt32(time) * 1000)
      // Before it goes on, so that it knows.
      stress_add_stopped(shared, stress_now_ns() - began)
      kill(service, SIGCONT)
    case "signal":
      let signal = stress_signal(random.next() >> 8)
      // The kernel may give it to a thread that checks its returns.
      if signal != SIGPROF, !isFatalAtTimes(signal) { kill(service, signal) }
    case "foreign_profile", "foreign_signals":
      for thread in threads(of: service) {
        let signal = act == "foreign_profile" ? SIGPROF : stress_signal(random.next() >> 8)
        guard signal != SIGPROF || !stress_is_quiet(shared, thread), !isFatalAtTimes(signal) else { continue }
        _ = stress_send(service, thread, signal)
      }
    case "hogs":
      guard hogs.count < 3 else { return }
      for _ in 0..<random.number(1...3 - hogs.count) {
        // It ends by itself where nobody is left to end it.
        let loop = "while kill -0 $0; do i=100000; while [ $i -gt 0 ]; do i=$((i - 1)); done; done"
        guard let hog = try? Spawn.process("/bin/sh", ["sh", "-c", loop, "\(getpid())"], isAlone: true) else { return }
        hogs.append((hog, stress_now_ns() + UInt64(random.number(200...3000)) * 1_000_000))
      }
    default:
      let error = stress_step_clock(Int64(random.number(-86_400...86_400)), UInt32(random.number(10_000...300_000)))
      if error != 0 { figures.note("the clock cannot be stepped: \(String(cString: strerror(error)))") }
    }
  }

  private func endHog(_ process: pid_t) {
    kill(process, SIGKILL)
    _ = Spawn.end(process)
    hogs.removeAll { $0.process == process }
  }

  private func threads(of process: pid_t) -> [Int32] {
    guard let directory = opendir("/proc/\(process)/task") else { return [] }
    defer { closedir(directory) }
    var found: [Int32] = []
    while let entry = readdir(directory) {
      // SAFETY: the name ends with a null within its 256 bytes.
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if let number = Int32(name) { found.append(number) }
    }
    return found
  }

  private var ownPath: String {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let length = readlink("/proc/self/exe", &path, path.count - 1)
    return String(decoding: path.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  // MARK: What came of it

  private func printFigures(_ launches: Int) {
    for (act, count) in (acts.map { ($0.key, $0.value) } + outside.map { ($0.key, $0.value) }).sorted(by: {
      $0.0 < $1.0
    }) {
      figures.note("\(act): \(count) times")
    }
    for (kind, count) in errors.sorted(by: { $0.value > $1.value }) { figures.note("\(count) times: \(kind)") }
    let void = counts[.void, default: 0]
    let stalls = Double(max(0, counts[.stall, default: 0] - void))
    figures.print("harm.seconds", Double(seconds), "s")
    figures.print("harm.launches", Double(launches), "launches")
    figures.print(
      "harm.acts",
      Double(acts.values.reduce(0, +) + outside.values.reduce(0, +)),
      "acts",
      in: 1...Double.infinity
    )
    // Of those that are named: from the record, the report having been made while no file could be read.
    figures.print("harm.named_later", Double(counts[.later, default: 0]), "stalls")
    figures.print("harm.void", Double(void), "stalls")
    figures.print("harm.stalls", stalls, "stalls", in: 1...Double.infinity)
    // One stall in a hundred, and one of a few.
    let least = min(stalls * 0.99, max(1, stalls - 1))
    figures.print("harm.named", Double(counts[.named, default: 0]), "stalls", in: least...max(1, stalls * 1.01))
    figures.print("harm.false_reports", Double(counts[.false, default: 0]), "reports", in: 0...0)
    figures.print(
      "harm.early_after_stop",
      Double(early),
      "calls",
      in: 0...max(1, Double(outside["stop", default: 0]) / 100)
    )
    let count = Double(errors.values.reduce(0, +))
    guard !faults.isEmpty else { return figures.print("harm.service_errors", count, "errors", in: 0...0) }
    // The control: each deliberate fault is found.
    let noticed = faults.filter { fault in
      errors.keys.contains { $0.contains(fault == "death" ? " after death" : " was damaged") }
    }
    figures.print("harm.service_errors", count, "errors")
    figures.print(
      "harm.faults_noticed",
      Double(noticed.count),
      "faults",
      in: Double(faults.count)...Double(faults.count)
    )
  }
}
