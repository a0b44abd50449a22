import Foundation

/// Picks `count` of `faults` that do not overlap, in a random order from `seed`.
func pick(_ count: Int, of faults: [Fault], seed: UInt64) -> [Fault] {
  var generator = SplitMix(seed)
  var picked: [Fault] = []
  var taken: [String: [Range<Int>]] = [:]
  for fault in faults.shuffled(using: &generator) where picked.count < count {
    if taken[fault.file, default: []].contains(where: { $0.overlaps(fault.range) }) { continue }
    taken[fault.file, default: []].append(fault.range)
    picked.append(fault)
  }
  return picked
}

/// Builds the copy without the faults that the compilers refuse. Returns the built faults, by number.
func buildable(_ picked: [Fault], in package: MutatedPackage) throws -> [Int: Fault] {
  var faults = Dictionary(uniqueKeysWithValues: picked.enumerated().map { ($0 + 1, $1) })
  while true {
    try package.write(faults)
    let (refused, errors) = try package.build()
    if refused.isEmpty {
      if faults.count < picked.count { say("mutate: \(picked.count - faults.count) faults do not compile") }
      return faults
    }
    let before = faults.count
    for (file, lines) in refused {
      let here = faults.filter { $1.file == file }
      let hit = here.filter { _, fault in lines.contains { fault.lines.contains($0) } }
      // Errors on lines without a fault are about types that another fault in the file has made ambiguous.
      for number in (hit.isEmpty ? here : hit).keys { faults[number] = nil }
    }
    guard faults.count < before else {
      throw MutationError("the copy does not build, and no fault is the reason:\n\(errors.joined(separator: "\n"))")
    }
  }
}

/// Runs each test without an active fault, to find the faults that it reaches. Reuses results in the file `former`, and
/// saves all results in the file `cache`.
func reach(_ runner: TestRunner, from former: String, cache: String) throws -> [TestCase] {
  let known = (try? JSONDecoder().decode([TestCase].self, from: Data(contentsOf: URL(fileURLWithPath: former)))) ?? []
  var byName = Dictionary(known.map { ($0.name, $0) }) { $1 }
  let names = try runner.list()
  runner.faults.set(0)
  for (place, name) in names.enumerated() where byName[name] == nil {
    _ = runner.faults.takeReached()
    let outcome = try runner.test([name], seconds: 300) { say("mutate: waiting for \(name)") }
    let reached = runner.faults.takeReached()
    byName[name] = TestCase(name: name, seconds: outcome.seconds, reached: reached, passed: outcome.passed)
    if !outcome.passed { say("mutate: \(name) does not pass without a fault, and is left out") }
    if place % 20 == 19 || place == names.count - 1 {
      say("mutate: \(place + 1) of \(names.count) tests were run without a fault")
      try JSONEncoder().encode(names.compactMap { byName[$0] }).write(to: URL(fileURLWithPath: cache))
    }
  }
  return names.compactMap { byName[$0] }.filter(\.passed)
}

/// Runs the tests that reach the fault `number`, the nearest and quickest first. Returns the first test that fails.
func notice(
  _ number: Int,
  _ fault: Fault,
  _ tests: [TestCase],
  _ runner: TestRunner,
  patience: Double
) throws -> String? {
  let parts = fault.file.split(separator: "/")
  let near = parts[parts.first == "tools" ? 2 : 1] + "Tests"
  // One second more for tests of another target, which can still come first if they are quick.
  let order = tests.filter { $0.reached.contains(number) }
    .sorted { ($0.seconds + ($0.target == near ? 0 : 1)) < ($1.seconds + ($1.target == near ? 0 : 1)) }
  var rest = order[...]
  var left = patience
  var batch = 3.0
  runner.faults.set(number)
  defer { runner.faults.set(0) }
  while let first = rest.popFirst(), first.seconds < left {
    var names = [first.name]
    var expected = first.seconds
    while let next = rest.first, expected + next.seconds < batch {
      names.append(next.name)
      expected += next.seconds
      rest.removeFirst()
    }
    let outcome = try runner.test(names, seconds: 20 + 4 * expected)
    if !outcome.passed { return outcome.failure }
    left -= min(outcome.seconds, expected)
    batch *= 2
  }
  return nil
}

func fingerprint(of faults: [Fault], in package: MutatedPackage) throws -> String {
  var hash = FNV()
  for fault in faults {
    let text = SourceText(try package.text(fault.file))[fault.range]
    hash.add("\(fault.file) \(fault.range) \(fault.description(text))".utf8)
  }
  return String(hash.value, radix: 16)
}

/// Known results of faults. Each result is appended to a file, so an interrupted run can continue.
///
/// The file's first line is the fingerprint of the tests. Results of other tests are not used.
struct Results {
  /// By fault number, the test that noticed the fault; "-" for none.
  private(set) var known: [Int: String] = [:]
  private let log: FileHandle

  /// Reads the results at `path` of tests with the fingerprint `tests`. If `isLeft`, noticed faults stay noticed even
  /// if the tests have changed, and all others are tried again.
  init(path: String, tests: String, isLeft: Bool) throws {
    let text = (try? String(contentsOfFile: path, encoding: .utf8)) ?? ""
    var lines = text.split(separator: "\n")
    let former = lines.first.flatMap { $0.hasPrefix("tests ") ? $0.dropFirst(6) : nil }
    if former != nil { lines.removeFirst() }
    for line in lines {
      let parts = line.split(separator: " ", maxSplits: 1)
      if let number = parts.first.flatMap({ Int($0) }), parts.count == 2 { known[number] = String(parts[1]) }
    }
    if isLeft {
      if known.isEmpty { say("mutate: there was no earlier run with these faults: all are tried") }
      known = known.filter { $1 != "-" }
      if !known.isEmpty { say("mutate: \(known.count) had been noticed, and are not tried again") }
    } else if former.map({ $0 != tests }) ?? !known.isEmpty {
      say("mutate: the tests have changed since the last run: all faults are tried (--left: only the remaining ones)")
      known = [:]
    }
    let kept = known.sorted { $0.key < $1.key }.map { "\($0) \($1)\n" }.joined()
    try Data("tests \(tests)\n\(kept)".utf8).write(to: URL(fileURLWithPath: path))
    log = FileHandle(fileDescriptor: open(path, O_WRONLY | O_APPEND | O_CLOEXEC), closeOnDealloc: true)
  }

  /// Records that `test` has noticed the fault `number`; `nil` for none.
  mutating func add(_ number: Int, _ test: String?) {
    known[number] = test ?? "-"
    log.write(Data("\(number) \(test ?? "-")\n".utf8))
  }
}

/// The path of the most recently changed file in `folder` whose name begins with `prefix`.
func latest(in folder: String, prefix: String) throws -> String? {
  try FileManager.default.contentsOfDirectory(atPath: folder).filter { $0.hasPrefix(prefix) }.map { "\(folder)/\($0)" }
    .max { try modified($0) < modified($1) }
}

private func modified(_ path: String) throws -> Date {
  try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date ?? .distantPast
}

func mutate() throws {
  let options = try Options(Array(CommandLine.arguments.dropFirst()))
  let work = options.root + "/.build/mutate"
  let package = MutatedPackage(root: options.root, copy: work + "/package")
  let possible = try package.possibleFaults(under: options.folders)
  // Half as many more, because one fault in four does not compile.
  let picked = pick(options.count + options.count / 2, of: possible, seed: options.seed)
  if options.isList {
    for (number, fault) in picked.enumerated() {
      let text = SourceText(try package.text(fault.file))[fault.range]
      say("\(number + 1) \(fault.kind.rawValue) \(fault.file):\(fault.lines.lowerBound): \(fault.description(text))")
    }
    return
  }
  try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
  let runner = TestRunner(package: package.copy, faults: try FaultSwitch(path: package.switchPath))
  let built = try buildable(picked, in: package)
  let faults = built.sorted { $0.key < $1.key }.prefix(options.count)
  say("mutate: \(possible.count) places, \(faults.count) faults of seed \(options.seed)")
  if picked.count < min(possible.count, options.count) {
    say("mutate: \(possible.count - picked.count) places are within others, and are tried with other seeds")
  }
  let folders = options.folders.joined(separator: "+").replacingOccurrences(of: "/", with: "_")
  // The fingerprint excludes results of other sources.
  let run = "\(options.seed)-\(options.count)-\(folders)-\(try fingerprint(of: picked, in: package))"
  let present = try package.testsFingerprint(without: options.folders)
  let cache = "\(work)/tests-\(run)-\(present).json"
  // With --left the tests are assumed to reach the faults that they reached in the latest run.
  let former = options.isLeft ? try latest(in: work, prefix: "tests-\(run)") ?? cache : cache
  let tests = try reach(runner, from: former, cache: cache)
  guard !tests.isEmpty else { throw MutationError("there is no test in \(options.root) that passes without a fault") }
  var results = try Results(path: "\(work)/results-\(run).txt", tests: present, isLeft: options.isLeft)

  var noticed: [String: (all: Int, noticed: Int)] = [:]
  for (number, fault) in faults {
    let test: String?
    if let earlier = results.known[number] {
      test = earlier == "-" ? nil : earlier
    } else {
      test = try notice(number, fault, tests, runner, patience: options.patience)
      results.add(number, test)
    }
    let source = SourceText(try package.text(fault.file))[fault.range]
    let place = "\(fault.file):\(fault.lines.lowerBound)"
    let isReached = tests.contains { $0.reached.contains(number) }
    let verdict = test.map { "noticed by \($0)" } ?? (isReached ? "LEFT" : "LEFT, reached by no test")
    say("\(number) \(fault.kind.rawValue) \(place): \(fault.description(source))  \(verdict)")
    let module = fault.file.split(separator: "/").prefix(2).joined(separator: "/")
    noticed[module, default: (0, 0)].all += 1
    if test != nil { noticed[module, default: (0, 0)].noticed += 1 }
  }
  for (module, counts) in noticed.sorted(by: { $0.key < $1.key }) {
    say("mutate.noticed.\(module) \(counts.noticed) of \(counts.all)")
  }
  say("mutate.faults \(faults.count)")
  let sum = noticed.values.reduce(0) { $0 + $1.noticed }
  say("mutate.noticed \(sum) (\(String(format: "%.1f", 100 * Double(sum) / Double(max(faults.count, 1)))) %)")
}

Descendants.adopt()
do { try mutate() } catch {
  FileHandle.standardError.write(Data("mutate: \(error)\n".utf8))
  exit(1)
}
