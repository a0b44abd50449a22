import CulpritStallRecord
import SplitMix

/// A service on many hosts, in several builds, with occasional stalls. Equal seeds make equal files.
struct Fleet {
  private let generator: SplitMix
  private let problems: [Problem]

  /// A culprit of some stalls.
  private struct Problem {
    var function: String
    var file: String
    /// The relative frequency. Most problems are rare.
    var weight: Int
    var systemCall: Int32?
  }

  /// The build IDs. Functions have different addresses and lines in each build.
  private static let builds: [[UInt8]] = [[0x93, 0xac, 0x61], [0x2f, 0x00, 0x17], [0xc4, 0x55, 0x9e]]
  /// 2026-11-16T00:00:00Z.
  private static let beginning: UInt64 = 1_794_787_200_000_000_000
  private static let days: UInt64 = 7

  init(seed: UInt64, isPlain: Bool) {
    generator = SplitMix(seed)
    let plain = ["Catalog.rebuildIndex(for:)", "Basket.price()", "Store.load(_:)", "Search.rank(_:by:)"]
    let hostile = [
      "closure #1 in \"Mailer\".send(_:)", "Über.größe(\\)", "a\u{1b}[2Jb\nc\td\u{202e}e\u{0}f",
      "shop::cache<" + String(repeating: "std::pair<int, ", count: 700) + ">::find(int)",
    ]
    problems = (plain + (isPlain ? [] : hostile)).enumerated()
      .map { place, name in
        Problem(
          function: name,
          file: "/home/build/shop/Sources/Shop/File\(place).swift",
          weight: 1 << (7 - place % 8),
          systemCall: place % 3 == 1 ? 0 : nil
        )
      }
  }

  func stall(_ number: Int, ofHost host: Int) -> (Recording, String) {
    var random = generator.derived(UInt64(host)).derived(UInt64(number))
    var drawn = Int.random(in: 0..<problems.reduce(0) { $0 + $1.weight }, using: &random)
    let problem = problems.first {
      drawn -= $0.weight
      return drawn < 0
    }
    let began = WallTime(
      nanosecondsSince1970: Self.beginning
        + UInt64.random(in: 0..<(Self.days * 86_400_000_000_000), using: &random)
    )
    let build = Int.random(in: 0..<Self.builds.count, using: &random)
    let process = Int32(1000 + host % 500)
    let recording = recording(problems: problem ?? problems[0], build, began, process, host, number, &random)
    let time = began.description.filter { $0 != "-" && $0 != ":" }
    return (recording, "culprit-\(time)-\(process)-\(number + 1).stall")
  }

  private func recording(
    problems problem: Problem,
    _ build: Int,
    _ began: WallTime,
    _ process: Int32,
    _ host: Int,
    _ number: Int,
    _ random: inout SplitMix
  ) -> Recording {
    let base = UInt64(0x5500_0000_0000) + UInt64.random(in: 0..<0x1000, using: &random) << 12
    let callers = ["_start", "main", "Server.run()", "Server.serve(_:)", "Server.respond(_:)"]
    let leaves = ["Dictionary.subscript.getter", "swift_retain", "memmove"]
    var names: [RuntimeAddress: [ResolvedFrame]] = [:]
    func frame(_ name: String, _ place: Int, isOwn: Bool) -> StackFrame {
      let offset = UInt64(0x1000 * (place + 1) + 0x100 * build)
      let address = RuntimeAddress(base + offset)
      names[address] = [
        ResolvedFrame(
          function: name.contains("closure") ? name.replacing("#1", with: "#\(build + 1)") : name,
          rawName: "raw\(place)",
          swiftModule: isOwn ? "Shop" : nil,
          module: isOwn ? "/srv/shop/bin/shop" : "/usr/lib/libshared.so.\(build + 1)",
          start: FileAddress(offset & ~0xff),
          address: .file(FileAddress(offset)),
          location: isOwn && place > 1 ? SourceLocation(file: problem.file, line: 20 + 10 * build) : nil
        )
      ]
      return .programCounter(address)
    }
    let outer = callers.enumerated().map { frame($0.element, $0.offset, isOwn: $0.offset > 0) }
    let culprit = frame(problem.function, 10, isOwn: true)
    let stacks = leaves.enumerated()
      .map { place, leaf in
        Stack(frames: [frame(leaf, 20 + place, isOwn: false), culprit] + outer.reversed(), end: .outermost)
      }
    let duration = Duration.milliseconds(4500) + .nanoseconds(Int64.random(in: 0..<9_000_000_000, using: &random))
    let samples = (1...20)
      .map { place in
        Sample(
          age: duration * (Double(place) / 21),
          stack: Int.random(in: 0..<stacks.count, using: &random),
          outcome: .captured,
          cpuTime: problem.systemCall == nil ? duration * (Double(place) / 21) : .zero,
          activity: problem.systemCall.map { .inSystemCall($0) } ?? .running
        )
      }
    let stall = Stall(
      id: UInt64(number + 1),
      source: WatchedSource(kind: host % 5 == 0 ? .queue : .loop, name: "http-\(host % 3)"),
      thread: ObservedThread(id: process, name: "shop"),
      threshold: .milliseconds(4500),
      began: began,
      samples: samples,
      duration: duration,
      hasEnded: number % 50 != 49
    )
    return Recording(
      process: ObservedProcess(
        id: process,
        executable: "/srv/shop/bin/shop",
        architecture: "x86_64",
        observerVersion: "0.1.0",
        watchedSince: WallTime(nanosecondsSince1970: Self.beginning + UInt64(host)),
        host: "web-\(host)"
      ),
      modules: [
        Module(
          path: "/srv/shop/bin/shop",
          buildID: Self.builds[build],
          mappings: [Module.Mapping(start: RuntimeAddress(base), end: RuntimeAddress(base + 0x100000), fileOffset: 0)]
        )
      ],
      stacks: stacks,
      stalls: [stall],
      names: names
    )
  }
}
