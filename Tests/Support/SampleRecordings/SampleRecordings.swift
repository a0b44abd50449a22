import CulpritStallRecord

/// Recordings for tests of exports. They contain names and addresses, so no executables are needed.
package enum SampleRecordings {
  static func process(_ id: Int32 = 4242) -> ObservedProcess {
    ObservedProcess(id, "/opt/shop/shop", since: 1_763_637_800_000_000_000)
  }

  static let modules = [
    Module(
      path: "/opt/shop/libshop.so",
      buildID: Array(1...20),
      mappings: [mapping(0x7f00_0000_0000, 0x10_0000, 0x1000)],
      bias: 0x7f00_0000_0000 - 0x1000
    ),
    Module(
      path: "/opt/shop/shop",
      buildID: Array(21...40),
      mappings: [mapping(0x5500_0000_0000, 0x100_0000, 0x2000)],
      bias: 0x5500_0000_0000 - 0x2000
    ),
    Module(
      path: "/usr/lib/x86_64-linux-gnu/libc.so.6",
      buildID: [],
      mappings: [mapping(0x7f80_0000_0000, 0x10_0000, 0)]
    ),
  ]

  private static func mapping(_ start: UInt64, _ size: UInt64, _ offset: UInt64) -> Module.Mapping {
    Module.Mapping(start: RuntimeAddress(start), end: RuntimeAddress(start + size), fileOffset: offset)
  }

  /// A stall of an event loop that computes and waits for a lock, with a failed sample, and with other threads.
  package static func everyday(process id: Int32 = 4242, stall number: UInt64 = 1, began second: UInt64 = 65)
    -> Recording
  {
    var maker = RecordingMaker(process: process(id), modules: modules)
    let root: [RecordingMaker.Function] = [
      .system("_start"), .own("main", "main.swift", 3), .own("Server.run()", "Server.swift", 40),
    ]
    let rebuild = root + [.own("Catalog.rebuildIndex(for:)", "Catalog.swift", 29)]
    let hash =
      rebuild + [
        .inlined("Catalog.hash(_:)", "Catalog.swift", 12, into: .own("Catalog.insert(_:)", "Catalog.swift", 77))
      ]
    let write = root + [.own("Catalog.writeSnapshot(to:)", "Catalog.swift", 41), .system("__lll_lock_wait")]
    for sample in 0..<12 {
      let age = Duration.milliseconds(400 + 380 * sample)
      switch sample {
      case 0..<5: maker.add(age, hash, .running, label: "request 1")
      case 5..<8: maker.add(age, rebuild, .running, label: "request 1")
      case 8: maker.add(age, Array(hash.dropFirst(3)), .running, end: .copyLimit, label: "request 2")
      case 9: maker.add(age, nil, .unknown, label: "request 2")
      // 202 is futex(2).
      default: maker.add(age, write, .inSystemCall(202), label: "request 2")
      }
    }
    maker.others = [
      (ObservedThread(id: 4250, name: "worker"), root + [.system("epoll_wait")], .inSystemCall(232)),
      (ObservedThread(id: 4251, name: "timer"), [.system("clock_nanosleep")], .inSystemCall(230)),
    ]
    return maker.recording(
      Stall(
        "http",
        id: number,
        thread: (id, "shop"),
        threshold: .milliseconds(2500),
        began: WallTime(nanosecondsSince1970: (1_763_637_800 + second) * 1_000_000_000 + 103_000_001),
        duration: .microseconds(5_012_345),
        hasEnded: true,
        notes: [StallNote(.unwatched, time: .milliseconds(100)), StallNote(.hang, time: .seconds(4))]
      )
    )
  }

  /// A stall of a pool with two threads. The second thread works from the middle on.
  package static func workers() -> Recording {
    var maker = RecordingMaker(process: process(), modules: modules)
    for sample in 0..<20 {
      let age = Duration.milliseconds(100 * sample + 50)
      maker.add(age, [.system("clone"), .own("Import.parse()", "Import.swift", 9)], .running, thread: 4301)
      guard sample >= 10 else { continue }
      maker.add(age, [.system("clone"), .own("Import.store()", "Import.swift", 90)], .inSystemCall(74), thread: 4302)
    }
    return maker.recording(
      Stall(
        "workers",
        kind: .pool,
        id: 7,
        thread: (0, ""),
        began: 1_763_637_900_000_000_000,
        duration: .seconds(2),
        hasEnded: false
      )
    )
  }

  /// A stall with a chain of lock waits: the work waits for an owner that waits for a second lock. If `isDeadlock`, the
  /// work holds the second lock, otherwise a computing thread. Thread names are ``hostileNames``.
  package static func waits(isDeadlock: Bool) -> Recording {
    var maker = RecordingMaker(process: process(), modules: modules)
    let lock: [RecordingMaker.Function] = [.call("pthread_mutex_lock"), .call("__lll_lock_wait")]
    let main: [RecordingMaker.Function] = [.system("_start"), .own("main", "main.swift", 3)]
    let (store, disk): (UInt64, UInt64) = (0x7f00_0000_1000, 0x7f00_0000_2000)
    let flusher = ObservedThread(id: 4260, name: hostileNames[4])
    let writer = ObservedThread(id: 4261, name: hostileNames[3])
    for sample in 0..<10 {
      let age = Duration.milliseconds(500 * (sample + 1))
      // 202 is futex(2).
      maker.add(
        age,
        main + [.own("Store.read(_:)", "Store.swift", 17)] + lock,
        .inSystemCall(202),
        used: .milliseconds(10),
        waitingFor: HeldLock(kind: .mutex, address: store, holderID: 4260, waiterID: 4242)
      )
      maker.addHolder(
        age + .milliseconds(1),
        flusher,
        of: store,
        [.system("clone"), .own("Store.flush()", "Store.swift", 60)] + lock,
        .inSystemCall(202),
        waitingFor: HeldLock(kind: .mutex, address: disk, holderID: isDeadlock ? 4242 : 4261, waiterID: 4260)
      )
      guard !isDeadlock else { continue }
      maker.addHolder(
        age + .milliseconds(2),
        writer,
        of: disk,
        [.system("clone"), .own("Disk.write(_:)", "Disk.swift", 33)],
        .running
      )
    }
    return maker.recording(
      Stall(
        "http",
        id: isDeadlock ? 12 : 11,
        thread: (4242, "shop"),
        threshold: .milliseconds(2500),
        began: 1_763_637_950_000_000_000,
        duration: .seconds(5),
        hasEnded: !isDeadlock
      )
    )
  }

  /// Names with characters that are harmful when printed unescaped.
  package static let hostileNames = [
    "quote\"back\\slash", "line\nfeed\r\n", "tab\tand\u{0}nul", "\u{1b}[31mred\u{1b}[0m\u{7}",
    "<script>alert('x')</script>&amp;",
    "semi;colon [u8; 4] 12", "turned \u{202e}txt.exe", "separator\u{2028}\u{2029}", "\u{fffd}\u{fffd} was no UTF-8",
    "a" + String(repeating: "::vector<std::pair<int, char> >", count: 320), "喫茶店🫖 e\u{301}", " ", "ends in 42",
    "\u{9b}31m", "${HOME} `id` %s%n",
  ]

  /// A stall in which every name is one of ``hostileNames``.
  package static func hostile() -> Recording {
    var hostile = process()
    hostile.executable = "/opt/" + hostileNames[3] + "/" + hostileNames[4]
    var modules = modules
    modules[1].path = hostile.executable
    var maker = RecordingMaker(process: hostile, modules: modules)
    for (number, name) in hostileNames.enumerated() {
      let other = hostileNames[(number + 1) % hostileNames.count]
      maker.add(
        .milliseconds(100 * number + 50),
        [.own("main", "main.swift", 1), .own(name, "/src/" + other, number + 1)],
        .running,
        label: other
      )
    }
    maker.others = [
      (ObservedThread(id: 9, name: hostileNames[0]), [.own(hostileNames[1], hostileNames[2], 3)], .running)
    ]
    return maker.recording(
      Stall(
        hostileNames[0] + hostileNames[1] + hostileNames[5],
        thread: (1, hostileNames[3] + hostileNames[4]),
        threshold: .milliseconds(500),
        began: 1_763_637_900_000_000_000,
        duration: .milliseconds(100 * hostileNames.count),
        hasEnded: true
      )
    )
  }

  /// A stall with `samples` samples of `stacks` distinct stacks with `depth` functions, in 200 modules.
  package static func large(samples: Int, stacks: Int, depth: Int = 40) -> Recording {
    var recording = withoutSamples(samples, stacks: stacks, depth: depth)
    recording.stalls[0].samples = Array(largeSamples(samples, stacks: stacks))
    return recording
  }

  /// Writes the stall of ``large(samples:stacks:depth:)`` in pieces, because it might not fit into memory.
  package static func largeFile(samples: Int, stacks: Int, depth: Int = 40, _ write: ([UInt8]) throws -> Void) rethrows
  {
    let recording = withoutSamples(samples, stacks: stacks, depth: depth)
    let stall = recording.stalls[0]
    let end = StallFileWriter.record(ofEndOf: stall)
    try write(StallFileWriter.file(of: recording).dropLast(end.count))
    var bytes: [UInt8] = []
    for sample in largeSamples(samples, stacks: stacks) {
      bytes += StallFileWriter.record(of: sample, stallID: stall.id)
      guard bytes.count > 1 << 20 else { continue }
      try write(bytes)
      bytes = []
    }
    try write(bytes + end)
  }

  private static func largeSamples(_ count: Int, stacks: Int) -> some Sequence<Sample> {
    sequence(state: (number: 0, random: UInt64(1))) { state -> Sample? in
      guard state.number < count else { return nil }
      state.random = state.random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      defer { state.number += 1 }
      let stack = Int(state.random >> 33) % stacks
      return Sample(.microseconds(1000 * (state.number + 1)), stack, .running, used: .microseconds(990 * state.number))
    }
  }

  private static func withoutSamples(_ samples: Int, stacks: Int, depth: Int) -> Recording {
    let libraries = (modules.count..<200).map { number in
      Module(
        path: "/opt/shop/libpart\(number).so",
        buildID: Array(repeating: UInt8(number), count: 20),
        mappings: [mapping(0x6000_0000_0000 + UInt64(number) << 32, 0x100_0000, 0x2000)]
      )
    }
    var maker = RecordingMaker(process: process(), modules: modules + libraries)
    maker.ownModules = [1] + (modules.count..<200)
    for stack in 0..<stacks {
      var rest = stack
      let functions = (0..<depth).map { level -> RecordingMaker.Function in
        // Each stack is a path in a binary call tree.
        defer { rest /= 2 }
        return .own("level\(level).function\(rest)()", "Level\(level).swift", rest % 1000 + 1)
      }
      _ = maker.stack(functions.reversed())
    }
    return maker.recording(
      Stall(
        "large",
        thread: (4242, "shop"),
        began: 1_763_637_900_000_000_000,
        duration: .milliseconds(samples + 1),
        hasEnded: true
      )
    )
  }
}
