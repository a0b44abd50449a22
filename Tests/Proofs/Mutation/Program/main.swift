import Foundation

/// `count` of `faults`, of which none is within another, in an order that follows from `seed`.
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

/// Builds the copy, without the faults that the compilers refuse. Returns those that are in it, by number.
func buildable(_ picked: [Fault], in package: MutatedPackage) throws -> [Int: Fault] {
  var faults = Dictionary(uniqueKeysWithValues: picked.enumerated().map { ($0 + 1, $1) })
  while true {
    try package.write(faults)
    let refused = try package.build()
    if refused.isEmpty { return faults }
    let before = faults.count
    for (file, lines) in refused {
      let here = faults.filter { $1.file == file }
      let hit = here.filter { _, fault in lines.contains { fault.lines.contains($0) } }
      // What is said of a line without a fault is about a type that a fault has made unclear.
      for number in (hit.isEmpty ? here : hit).keys { faults[number] = nil }
    }
    say("mutate: \(before - faults.count) faults are no programs")
    guard faults.count < before else {
      throw MutationError("the copy does not build, and no fault is the reason: \(refused)")
    }
  }
}

/// The tests with what they reach, from `cache` as far as they are there.
func reach(_ runner: TestRunner, cache: String) throws -> [TestCase] {
  let known = (try? JSONDecoder().decode([TestCase].self, from: Data(contentsOf: URL(fileURLWithPath: cache)))) ?? []
  var byName = Dictionary(known.map { ($0.name, $0) }) { $1 }
  let names = try runner.list()
  runner.faults.set(0)
  for (place, name) in names.enumerated() where byName[name] == nil {
    _ = runner.faults.takeReached()
    let outcome = try runner.test([name], seconds: 300)
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

/// Runs the tests that come to the fault `number`, the nearest and quickest first, until one notices it. Returns which.
func notice(
  _ number: Int,
  _ fault: Fault,
  _ tests: [TestCase],
  _ runner: TestRunner,
  patience: Double
) throws -> String? {
  let parts = fault.file.split(separator: "/")
  let near = (parts.first == "CSupport" || parts.first == "Sources" ? String(parts[1]) : "Command") + "Tests"
  // A second more for each away: the tests of another target are quick sometimes, too.
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

/// What tells `faults` from those of other sources.
func fingerprint(of faults: [Fault], in package: MutatedPackage) throws -> String {
  // FNV-1a, of 64 bits.
  var hash: UInt64 = 0xcbf2_9ce4_8422_2325
  for fault in faults {
    let text = SourceText(try package.text(fault.file))[fault.range]
    for byte in "\(fault.file) \(fault.range) \(fault.description(text))".utf8 {
      hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
    }
  }
  return String(hash, radix: 16)
}

func mutate() throws {
  let options = try Options(Array(CommandLine.arguments.dropFirst()))
  let work = options.root + "/.build/mutate"
  let package = MutatedPackage(root: options.root, copy: work + "/package")
  let possible = try package.possibleFaults(under: options.folders)
  // One in four is no program.
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
  let folders = options.folders.joined(separator: "+").replacingOccurrences(of: "/", with: "_")
  // What was found of other sources is not true of these.
  let run = "\(options.seed)-\(options.count)-\(folders)-\(try fingerprint(of: picked, in: package))"
  let tests = try reach(runner, cache: "\(work)/tests-\(run).json")

  // What an earlier run has found, so that one that was ended goes on.
  let results = "\(work)/results-\(run).txt"
  var known: [Int: String] = [:]
  for line in ((try? String(contentsOfFile: results, encoding: .utf8)) ?? "").split(separator: "\n") {
    let parts = line.split(separator: " ", maxSplits: 1)
    if let number = parts.first.flatMap({ Int($0) }), parts.count == 2 { known[number] = String(parts[1]) }
  }
  if options.isLeft { known = known.filter { $1 != "-" } }
  let log = FileHandle(fileDescriptor: open(results, O_WRONLY | O_CREAT | O_APPEND, 0o644), closeOnDealloc: true)

  var noticed: [String: (all: Int, noticed: Int)] = [:]
  for (number, fault) in faults {
    let test: String?
    if let earlier = known[number] {
      test = earlier == "-" ? nil : earlier
    } else {
      test = try notice(number, fault, tests, runner, patience: options.patience)
      log.write(Data("\(number) \(test ?? "-")\n".utf8))
    }
    let source = SourceText(try package.text(fault.file))[fault.range]
    let place = "\(fault.file):\(fault.lines.lowerBound)"
    let isReached = tests.contains { $0.reached.contains(number) }
    let verdict = test.map { "noticed by \($0)" } ?? (isReached ? "LEFT" : "LEFT, no test comes there")
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

do { try mutate() } catch {
  FileHandle.standardError.write(Data("mutate: \(error)\n".utf8))
  exit(1)
}
