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
    .target(name: "CLinux", path: "CSupport/CLinux", linkerSettings: [.linkedLibrary("dl")]),
    // A copied stack in, frames out.
    .target(
      name: "CUnwind",
      path: "CSupport/CUnwind",
      cSettings: [.headerSearchPath(".")],
      linkerSettings: [.linkedLibrary("dl")]
    ),
    // How a process ends: abort, crash notes, SIGTERM, systemd's socket, processor times.
    .target(name: "CProcess", dependencies: ["CLinux"], path: "CSupport/CProcess"),
    // The observing path, in C: target slots, threads, capture.
    .target(name: "CObserver", dependencies: ["CLinux", "CProcess", "CUnwind"], path: "CSupport/CObserver"),
    // Run loops, without making a service link Foundation that does not already.
    .target(name: "CRunLoop", path: "CSupport/CRunLoop"),
    .systemLibrary(name: "CZlib", path: "CSupport/CZlib", providers: [.apt(["zlib1g-dev"])]),

    // The offline half: what was observed, names for it, and who is to blame.
    .target(name: "StallRecord"),
    .target(
      name: "Symbols",
      dependencies: ["StallRecord", "CLinux", "CZlib"],
      linkerSettings: [.linkedLibrary("stdc++")]
    ),
    .target(name: "Blame", dependencies: ["StallRecord"]),
    .target(name: "Reports", dependencies: ["StallRecord", "Blame"]),
    // What runs of a service leave in a directory, and how they ended.
    .target(name: "BlackBox", dependencies: ["StallRecord"]),

    // What a service imports.
    .target(
      name: "Culprit",
      dependencies: [
        "CLinux", "CObserver", "CProcess", "CRunLoop", "CUnwind", "StallRecord", "Symbols", "Blame", "Reports",
        "BlackBox",
      ]
    ),

    // Commands.
    .target(name: "CommandLineOptions", dependencies: ["StallRecord"], path: "tools/options"),
    .executableTarget(
      name: "culprit",
      dependencies: ["CLinux", "StallRecord", "Symbols", "Blame", "Reports", "BlackBox", "CommandLineOptions"],
      path: "tools/culprit"
    ),

    .executableTarget(
      name: "example-service",
      dependencies: ["Culprit", "ExampleServer", "CommandLineOptions"],
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
        "CLinux", "CObserver", "CUnwind", "Culprit", "StallRecord", "Symbols", "ChildProcesses", "CommandLineOptions",
        "BenchmarkPeers",
        "SourceLoads", "SplitMix",
      ],
      path: "tools/benchmarks"
    ),
    // What the benchmarks observe, and other ways to do it.
    .target(name: "BenchmarkPeers", path: "tools/benchmark-peers", linkerSettings: [.linkedLibrary("dl")]),
    // What is watched by benchmarks and soak tests.
    .target(name: "SourceLoads", dependencies: ["CObserver"], path: "tools/source-loads"),
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
        "CLinux", "CObserver", "CUnwind", "Culprit", "StallRecord", "Symbols", "Blame", "Reports", "BlackBox",
        "CommandLineOptions",
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
        "Blame", "ChildProcesses", "CommandLineOptions", "Culprit", "SplitMix", "StallRecord", "StressHarm",
        "Symbols",
      ],
      path: "Tests/Proofs/Stress/Program"
    ),

    .testTarget(
      name: "CObserverTests",
      dependencies: [
        "CLinux", "CObserver", "CUnwind", "Culprit", "StallRecord", "Symbols", "TestSupport", "TestWorkloads",
      ]
    ),
    .testTarget(name: "StallRecordTests", dependencies: ["StallRecord"]),
    .testTarget(
      name: "SymbolsTests",
      dependencies: ["Blame", "Symbols", "StallRecord", "TestSupport"],
      exclude: ["Findings", "Names"]
    ),
    .testTarget(name: "BlameTests", dependencies: ["Blame", "SplitMix", "StallRecord"]),
    .testTarget(name: "ReportsTests", dependencies: ["Reports", "Blame", "StallRecord"], exclude: ["Snapshots"]),
    .testTarget(name: "BlackBoxTests", dependencies: ["BlackBox", "FaultyDisks", "StallRecord", "TestSupport"]),
    .testTarget(
      name: "CulpritTests",
      dependencies: [
        "CLinux", "CObserver", "Culprit", "BlackBox", "FaultyDisks", "SourceLoads", "StallRecord", "Symbols",
        "TestSupport", "TestWorkloads",
      ]
    ),
    .testTarget(name: "CommandTests", dependencies: ["StallRecord", "CommandLineOptions", "TestSupport"]),
    .target(name: "TestWorkloads", path: "Tests/TestWorkloads"),
    // Watches stalls in a process that lacks something, or shares it with somebody: what tests cannot do to their own.
    .executableTarget(
      name: "surroundings",
      dependencies: ["Culprit", "StallRecord", "TestWorkloads"],
      path: "Tests/Surroundings"
    ),
    // An allocator and locks that count, in front of the C library's, and a process that is observed with them.
    .target(name: "CountedCalls", path: "Tests/CountedCalls", linkerSettings: [.linkedLibrary("dl")]),
    .executableTarget(
      name: "counted-process",
      dependencies: ["Culprit", "CountedCalls", "StallRecord"],
      path: "Tests/CountedProcess"
    ),
    // A process whose end is tested from outside, and what its next launch says of it.
    .executableTarget(
      name: "blackbox-process",
      dependencies: ["Culprit", "BlackBox", "Blame", "SourceLoads", "StallRecord", "TestWorkloads"],
      path: "Tests/BlackBoxProcess"
    ),
    // A process whose policies are tested from outside: its environment, signals, sockets and its end.
    .executableTarget(
      name: "policy-process",
      dependencies: ["Culprit", "StallRecord", "StuckDisk", "TestWorkloads"],
      path: "Tests/PolicyProcess"
    ),
    // A service whose threads the kernel holds up, and what it does that with.
    .target(name: "KernelWaits", path: "Tests/Processes/KernelWaits"),
    .executableTarget(
      name: "held-up-process",
      dependencies: ["Blame", "CLinux", "Culprit", "KernelWaits", "StallRecord"],
      path: "Tests/Processes/HeldUp"
    ),
    // A process that forks, closes descriptors and restarts its watchdog, and tells whether anybody came to harm.
    .executableTarget(
      name: "harm-process",
      dependencies: ["Culprit", "StallRecord", "TestWorkloads"],
      path: "Tests/HarmProcess"
    ),
    // A disk that never answers.
    .target(name: "StuckDisk", path: "Tests/StuckDisk"),
    .target(
      name: "TestSupport",
      dependencies: ["ChildProcesses", "StallRecord", "Symbols"],
      path: "Tests/TestSupport"
    ),
    .executableTarget(
      name: "stalling-process",
      dependencies: ["Culprit", "StallRecord", "TestWorkloads"],
      path: "Tests/StallingProcess"
    ),
  ],
  swiftLanguageModes: [.v6]
)
