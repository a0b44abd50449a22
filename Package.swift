// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "culprit",
  products: [
    .library(name: "Culprit", targets: ["Culprit"]),
    .executable(name: "culprit", targets: ["culprit"]),
  ],
  targets: [
    // The ground: clocks, waiting, the process's own threads, memory and modules.
    .target(name: "CCulpritLinux", path: "CSupport/CLinux", linkerSettings: [.linkedLibrary("dl")]),
    // A copied stack in, frames out.
    .target(
      name: "CCulpritUnwind",
      path: "CSupport/CUnwind",
      cSettings: [.headerSearchPath(".")],
      linkerSettings: [.linkedLibrary("dl")]
    ),
    // How a process ends: abort, crash notes, SIGTERM, systemd's socket, processor times.
    .target(name: "CCulpritProcess", dependencies: ["CCulpritLinux"], path: "CSupport/CProcess"),
    // The observing path, in C: target slots, threads, capture.
    .target(
      name: "CCulpritObserver",
      dependencies: ["CCulpritLinux", "CCulpritProcess", "CCulpritUnwind"],
      path: "CSupport/CObserver"
    ),
    // Run loops, without making a service link Foundation that does not already.
    .target(name: "CCulpritRunLoop", path: "CSupport/CRunLoop"),
    .systemLibrary(name: "CCulpritZlib", path: "CSupport/CZlib", providers: [.apt(["zlib1g-dev"])]),
    // Another reader of ELF and DWARF, which tests compare ours with.
    .systemLibrary(name: "CCulpritElf", path: "CSupport/CElf", providers: [.apt(["libelf-dev", "libdw-dev"])]),

    // The offline half: what was observed, names for it, and who is to blame.
    .target(name: "CulpritStallRecord", path: "Sources/StallRecord"),
    .target(
      name: "CulpritSymbols",
      dependencies: ["CulpritStallRecord", "CCulpritLinux", "CCulpritZlib"],
      path: "Sources/Symbols",
      linkerSettings: [.linkedLibrary("stdc++")]
    ),
    .target(name: "CulpritBlame", dependencies: ["CulpritStallRecord"], path: "Sources/Blame"),
    .target(name: "CulpritReports", dependencies: ["CulpritStallRecord", "CulpritBlame"], path: "Sources/Reports"),
    // What runs of a service leave in a directory, and how they ended.
    .target(name: "CulpritBlackBox", dependencies: ["CulpritStallRecord"], path: "Sources/BlackBox"),

    // What a service imports.
    .target(
      name: "Culprit",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritProcess", "CCulpritRunLoop", "CCulpritUnwind",
        "CulpritStallRecord", "CulpritSymbols", "CulpritBlame", "CulpritReports",
        "CulpritBlackBox",
      ]
    ),

    // Commands.
    .target(name: "CulpritOptions", dependencies: ["CulpritStallRecord"], path: "tools/options"),
    .executableTarget(
      name: "culprit",
      dependencies: [
        "CCulpritLinux", "CulpritStallRecord", "CulpritSymbols", "CulpritBlame", "CulpritReports", "CulpritBlackBox",
        "CulpritOptions",
      ],
      path: "tools/culprit"
    ),

    .executableTarget(
      name: "example-service",
      dependencies: ["Culprit", "ExampleServer", "CulpritOptions"],
      path: "tools/example-service"
    ),
    .target(name: "ExampleServer", path: "tools/example-server"),
    .executableTarget(
      name: "example-service-unwatched",
      dependencies: ["ExampleServer"],
      path: "tools/example-service-unwatched"
    ),
    .executableTarget(
      name: "culprit-bench",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritUnwind", "Culprit", "CulpritStallRecord", "CulpritSymbols",
        "ChildProcesses", "CulpritOptions",
        "BenchmarkPeers",
        "SourceLoads", "SplitMix",
      ],
      path: "tools/benchmarks"
    ),
    // What the benchmarks observe, and other ways to do it.
    .target(name: "BenchmarkPeers", path: "tools/benchmark-peers", linkerSettings: [.linkedLibrary("dl")]),
    // What is watched by benchmarks and soak tests.
    .target(name: "SourceLoads", dependencies: ["CCulpritObserver"], path: "tools/source-loads"),
    // Threads whose every system call tells whether something disturbed it, and a program that observes them.
    .target(name: "SoakCallers", path: "tools/soak-callers"),
    // File systems that break while somebody writes to them, and services that do.
    .target(name: "FaultyDisks", dependencies: ["ChildProcesses"], path: "tools/faulty-disks"),
    // Programs that are started without what their starter has by chance: signals blocked and ignored, descriptors.
    .target(name: "CSpawning", path: "tools/child-processes/c"),
    .target(name: "ChildProcesses", dependencies: ["CSpawning"], path: "tools/child-processes/swift"),
    .executableTarget(
      name: "culprit-soak",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritUnwind", "Culprit", "CulpritStallRecord", "CulpritSymbols",
        "CulpritBlame", "CulpritReports", "CulpritBlackBox",
        "CulpritOptions",
        "FaultyDisks", "SoakCallers", "SourceLoads",
      ],
      path: "tools/soaks"
    ),

    // Stalls with known culprits, as tests start them; `tools/bench` builds them as a package of their own.
    .executableTarget(
      name: "blame-trials",
      dependencies: ["Catalogue", "Culprit", "NativeWork", "Retries", "SplitMix"],
      path: "Tests/Proofs/Blame/Program"
    ),
    .target(name: "Catalogue", path: "Tests/Proofs/Blame/Catalogue"),
    .target(name: "NativeWork", path: "Tests/Proofs/Blame/Native"),
    .target(name: "Retries", path: "Tests/Proofs/Blame/Retries/Sources/Retries"),
    // Numbers that follow from a seed.
    .target(name: "SplitMix", path: "Tests/Proofs/Blame/SplitMix"),

    // A service under random harm, and what looks after it.
    .target(name: "StressHarm", path: "Tests/Proofs/Stress/Harm"),
    .executableTarget(
      name: "culprit-stress",
      dependencies: [
        "CulpritBlame", "ChildProcesses", "CulpritOptions", "Culprit", "SplitMix", "CulpritStallRecord", "StressHarm",
        "CulpritSymbols",
      ],
      path: "Tests/Proofs/Stress/Program"
    ),

    // Recorded stacks (Tests/Fixtures), of both processor architectures.
    .testTarget(name: "CUnwindTests", dependencies: ["CCulpritUnwind"]),
    .testTarget(
      name: "CObserverTests",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "CCulpritUnwind", "Culprit", "CulpritStallRecord", "CulpritSymbols",
        "TestSupport", "TestWorkloads",
      ]
    ),
    .testTarget(name: "StallRecordTests", dependencies: ["CulpritStallRecord"]),
    .testTarget(
      name: "SymbolsTests",
      dependencies: ["CulpritBlame", "CCulpritElf", "CulpritSymbols", "CulpritStallRecord", "TestSupport"],
      exclude: ["Findings", "Names"]
    ),
    .testTarget(name: "BlameTests", dependencies: ["CulpritBlame", "SplitMix", "CulpritStallRecord"]),
    .testTarget(
      name: "ReportsTests",
      dependencies: ["CulpritReports", "CulpritBlame", "CulpritStallRecord"],
      exclude: ["Snapshots"]
    ),
    .testTarget(
      name: "BlackBoxTests",
      dependencies: ["CulpritBlackBox", "FaultyDisks", "CulpritStallRecord", "TestSupport"]
    ),
    .testTarget(
      name: "CulpritTests",
      dependencies: [
        "CCulpritLinux", "CCulpritObserver", "Culprit", "CulpritBlackBox", "FaultyDisks", "SourceLoads",
        "CulpritStallRecord", "CulpritSymbols",
        "TestSupport", "TestWorkloads",
      ]
    ),
    .testTarget(name: "CommandTests", dependencies: ["CulpritStallRecord", "CulpritOptions", "TestSupport"]),
    .target(name: "TestWorkloads", path: "Tests/TestWorkloads"),
    // Watches stalls in a process that lacks something, or shares it with somebody: what tests cannot do to their own.
    .executableTarget(
      name: "surroundings",
      dependencies: ["Culprit", "CulpritStallRecord", "TestWorkloads"],
      path: "Tests/Surroundings"
    ),
    // An allocator and locks that count, in front of the C library's, and a process that is observed with them.
    .target(name: "CountedCalls", path: "Tests/CountedCalls", linkerSettings: [.linkedLibrary("dl")]),
    .executableTarget(
      name: "counted-process",
      dependencies: ["Culprit", "CountedCalls", "CulpritStallRecord"],
      path: "Tests/CountedProcess"
    ),
    // A process whose end is tested from outside, and what its next launch says of it.
    .executableTarget(
      name: "blackbox-process",
      dependencies: [
        "Culprit", "CulpritBlackBox", "CulpritBlame", "SourceLoads", "CulpritStallRecord", "TestWorkloads",
      ],
      path: "Tests/BlackBoxProcess"
    ),
    // A process whose policies are tested from outside: its environment, signals, sockets and its end.
    .executableTarget(
      name: "policy-process",
      dependencies: ["Culprit", "CulpritStallRecord", "StuckDisk", "TestWorkloads"],
      path: "Tests/PolicyProcess"
    ),
    // A service whose threads the kernel holds up, and what it does that with.
    .target(name: "KernelWaits", path: "Tests/Processes/KernelWaits"),
    .executableTarget(
      name: "held-up-process",
      dependencies: ["CulpritBlame", "CCulpritLinux", "Culprit", "KernelWaits", "CulpritStallRecord"],
      path: "Tests/Processes/HeldUp"
    ),
    // A process that forks, closes descriptors and restarts its watchdog, and tells whether anybody came to harm.
    .executableTarget(
      name: "harm-process",
      dependencies: ["Culprit", "CulpritStallRecord", "TestWorkloads"],
      path: "Tests/HarmProcess"
    ),
    // A disk that never answers.
    .target(name: "StuckDisk", path: "Tests/StuckDisk"),
    .target(
      name: "TestSupport",
      dependencies: ["ChildProcesses", "CulpritStallRecord", "CulpritSymbols"],
      path: "Tests/TestSupport"
    ),
    .executableTarget(
      name: "stalling-process",
      dependencies: ["Culprit", "CulpritStallRecord", "TestWorkloads"],
      path: "Tests/StallingProcess"
    ),
  ],
  swiftLanguageModes: [.v6]
)
