/// A place in source code.
package struct SourceLocation: Hashable, Sendable, CustomStringConvertible {
  /// The file's path as the compiler recorded it.
  package var file: String
  /// The line, from 1.
  package var line: Int
  /// The column, from 1; 0 when it is not known.
  package var column: Int

  /// The place `line`:`column` in `file`.
  package init(file: String, line: Int, column: Int = 0) {
    self.file = file
    self.line = line
    self.column = column
  }

  /// The place as compilers print it, without the column.
  package var description: String { "\(file):\(line)" }
}

/// Why an address has no name.
package enum MissingNameReason: Hashable, Sendable {
  /// No module was mapped at the address.
  case notMapped
  /// The module is not a file (the vDSO, for one).
  case noFile
  /// The file could not be opened or read; the text says why.
  case unreadableFile(String)
  /// The file is not the one that ran: its build-id differs.
  case changedFile(expected: String, found: String)
  /// The file was deleted or replaced, and has no build-id by which what is there now could be known for it.
  case unverifiable
  /// The file has no symbol table.
  case noSymbols
  /// The file has symbols, but none that covers the address.
  case noSymbolHere

  /// Whether it is what the right file says, and not for want of that.
  package var isOfFile: Bool { self == .noSymbols || self == .noSymbolHere }

  /// The reason in words.
  package var explanation: String {
    switch self {
    case .notMapped: "no module was mapped there"
    case .noFile: "the module is not a file"
    case .unreadableFile(let why): why
    case .changedFile(let expected, let found):
      "the file has changed since: its build-id is \(found), the one that ran had \(expected)"
    case .unverifiable: "the file was deleted, and without a build-id what is there now cannot be known for it"
    case .noSymbols: "the file has no symbols"
    case .noSymbolHere: "the file has no symbol for this address"
    }
  }
}

/// What compilers noted about where code comes from.
package enum CodeOrigin: Hashable, Sendable {
  /// Not known: the module has no debug information, or there is no file to read it from.
  case unknown
  /// The module has debug information, but none about this code: it was compiled elsewhere, and came in an archive.
  case undescribed
  /// It is part of this compilation unit.
  case unit(CompilationUnit)
}

/// What was compiled at once: a source file, or a Swift module.
package struct CompilationUnit: Hashable, Sendable {
  /// The directory that the compiler ran in (DW_AT_comp_dir), empty if it is not known.
  package var directory: String
  /// The source file (DW_AT_name), relative to ``directory`` or absolute.
  package var file: String
  /// The Swift module that it is part of; `nil` where that is not known, or it is not Swift.
  package var swiftModule: String?

  /// What was compiled from `file` in `directory`, as part of `swiftModule`.
  package init(directory: String, file: String, swiftModule: String? = nil) {
    self.directory = directory
    self.file = file
    self.swiftModule = swiftModule
  }

  /// ``file`` in ``directory``.
  package var path: String { file.hasPrefix("/") || directory.isEmpty ? file : directory + "/" + file }
}

/// What the code at an address is.
package enum FunctionKind: Hashable, Sendable {
  /// What somebody has written, or a copy or part of it.
  case function
  /// Leads to a function that somebody has written, and does little else: a witness of a protocol, what a closure is
  /// called through. The function's own code is often inlined into it.
  case thunk
  /// What the compiler has made for a type: copying and destroying its values, its metadata.
  case glue
}

/// Which function a call means whose code is that of several.
package struct CalledFunction: Hashable, Sendable {
  /// The name for readers.
  package var function: String
  /// The name with everything the demangler knows about it.
  package var fullName: String
  /// The name in the symbol table.
  package var rawName: String
  /// The Swift module that defines the function.
  package var swiftModule: String?
  /// What the function that somebody has written is called in full.
  package var sourceFunction: String?
  /// The first address of the code.
  package var start: FileAddress

  /// The function whose code begins at `start`.
  package init(
    function: String,
    fullName: String,
    rawName: String,
    swiftModule: String?,
    sourceFunction: String?,
    start: FileAddress
  ) {
    self.function = function
    self.fullName = fullName
    self.rawName = rawName
    self.swiftModule = swiftModule
    self.sourceFunction = sourceFunction
    self.start = start
  }
}

extension [ResolvedFrame] {
  /// The frames of a stack, the innermost first, in which functions that the compiler has merged have the names that their
  /// callers know.
  package func namingMergedFunctions() -> [ResolvedFrame] {
    guard contains(where: \.isMerged) else { return self }
    var frames = self
    for place in indices.dropLast() where frames[place].isMerged && !frames[place].isInlined {
      let isCallerHere = frames[place + 1].module == frames[place].module
      guard let called = frames[place + 1].called, called.start == frames[place].start, isCallerHere else {
        // What only leads to several functions has the same code for each.
        if isCallerHere, frames[place + 1].kind == .thunk, frames[place + 1].location == nil {
          frames[place + 1].isMerged = true
        }
        continue
      }
      frames[place].function = called.function
      frames[place].fullName = called.fullName
      frames[place].rawName = called.rawName
      frames[place].swiftModule = called.swiftModule
      frames[place].sourceFunction = called.sourceFunction
      frames[place].isMerged = false
    }
    return frames
  }
}

/// What an address of a stack is called.
package struct ResolvedFrame: Hashable, Sendable {
  /// The function's name for readers: demangled and shortened. `nil` when it has none.
  package var function: String?
  /// The name with everything the demangler knows about it.
  package var fullName: String?
  /// The name in the symbol table.
  package var rawName: String?
  /// The Swift module that defines the function, for a Swift function. Generic code of one module is often compiled into
  /// another one's file.
  package var swiftModule: String?
  /// What the function that somebody has written is called in full, of which this is a variant or a part that has no name
  /// in the source: a specialisation, a piece of an async function, an implicit closure. The same for all of them; `nil`
  /// where that is not known.
  package var sourceFunction: String?
  /// What the code is.
  package var kind: FunctionKind
  /// Whether the compiler has made one function of several that are alike: the name is that of one, and any of them may
  /// have been called.
  package var isMerged: Bool
  /// Which function is called here whose code is that of several; `nil` when none is, or it is not known which.
  package var called: CalledFunction?
  /// The path of the module, empty when the address is in none.
  package var module: String
  /// The first address of the function in the module's file, or the address itself where no function is known.
  package var start: FileAddress?
  /// The address, in the module's file or in the process.
  package var address: CodeAddress
  /// Where in the source, if known.
  package var location: SourceLocation?
  /// Which compilation the code comes from. Generic and inlined code of one module is compiled into another one's unit.
  package var origin: CodeOrigin
  /// Whether the function has no frame of its own because the compiler put its code into its caller, the next one.
  package var isInlined: Bool
  /// Why there is no name; `nil` when there is one.
  package var missing: MissingNameReason?
  /// Whether the function is not on the thread's stack, and goes on here when what it awaits is done.
  package var isAwaiting = false

  /// A frame at `address` of `module`.
  package init(
    function: String?,
    fullName: String? = nil,
    rawName: String? = nil,
    swiftModule: String? = nil,
    sourceFunction: String? = nil,
    kind: FunctionKind = .function,
    isMerged: Bool = false,
    module: String,
    start: FileAddress? = nil,
    address: CodeAddress,
    location: SourceLocation? = nil,
    origin: CodeOrigin = .unknown,
    isInlined: Bool = false,
    missing: MissingNameReason? = nil
  ) {
    self.function = function
    self.fullName = fullName
    self.rawName = rawName
    self.swiftModule = swiftModule
    self.sourceFunction = sourceFunction
    self.kind = kind
    self.isMerged = isMerged
    self.module = module
    self.start = start
    self.address = address
    self.location = location
    self.origin = origin
    self.isInlined = isInlined
    self.missing = missing
  }

  /// The last component of the module's path.
  package var moduleName: String {
    guard let slash = module.utf8.lastIndex(of: UInt8(ascii: "/")) else { return module }
    return String(module[module.index(after: slash)...])
  }

  /// The name to print, in at most 100 characters: the function, else the module and the function's start or the address in
  /// it, else the address. That several functions have this code is said.
  package var displayName: String {
    if let function {
      let suffix = isMerged ? FunctionName.mergedSuffix : ""
      return FunctionName.fitted(function, to: FunctionName.charactersMax - suffix.count) + suffix
    }
    let place = "0x" + String(start?.value ?? address.value, radix: 16)
    return module.isEmpty ? place : "\(moduleName)+\(place)"
  }
}
