/// Names of toolchain and system functions, wherever they are linked. Used only if there is no debug information.
enum SystemNames {
  /// Swift modules that come with the toolchain or with Culprit.
  static let swiftModules: Set<String> = [
    "Swift", "_Concurrency", "_StringProcessing", "_RegexParser", "RegexBuilder", "Synchronization", "Observation",
    "Distributed", "Dispatch", "Foundation", "FoundationEssentials", "FoundationInternationalization",
    "FoundationNetworking", "FoundationXML", "CoreFoundation", "Glibc", "Musl", "Cxx", "CxxStdlib", "XCTest", "Testing",
    "Culprit", "CulpritReports", "CulpritStallRecord", "CulpritSymbols", "CulpritBlame", "CulpritBlackBox", "__C",
    "SwiftShims", "SwiftOnoneSupport", "_Builtin_float", "_Differentiation", "_FoundationCollections",
    "_Volatile", "Runtime",
  ]

  /// Whether the linkage name `name` belongs to the toolchain or the system.
  static func contains(_ name: String) -> Bool {
    if prefixes.contains(where: name.hasPrefix) { return true }
    // Outlined and specialized functions have a suffix (".cold").
    let stem = name.prefix { $0 != "." }
    if let known = word(stem, behind: "swift_") { return swift.contains(known) || isUnicode(known) }
    if let known = word(stem, behind: "dispatch_") { return dispatch.contains(known) }
    return isCoreFoundation(stem) || isUnicode(stem)
  }

  /// Prefixes of names that C and C++ reserve for the system (C11, 7.1.3; Itanium C++ ABI, 5.1.4.2: St is std), of
  /// toolchain namespaces, and of sanitizers.
  private static let prefixes = [
    "_swift_", "__swift_", "_dispatch_", "__dispatch_", "___dispatch_", "_os_", "_voucher_", "_Block_", "_Unwind_",
    "__cxa_", "__gxx_", "__libc_", "$ss", "$sS", "_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx",
    "_ZN10__cxxabiv1", "_ZNK10__cxxabiv1", "_ZN5swift", "_ZNK5swift", "_ZN7__swift", "_ZNK7__swift", "__tsan_",
    "_ZN6__tsan", "__asan_", "_ZN6__asan", "_ZN11__sanitizer", "__sanitizer_", "__interceptor_", "___interceptor_",
  ]

  private static func word(_ name: Substring, behind prefix: String) -> Substring? {
    name.hasPrefix(prefix) ? name.dropFirst(prefix.count) : nil
  }

  /// Whether `name` belongs to ICU. Its functions end with a version, as in "ucol_strcoll_76"; Foundation's copies
  /// begin with "swift_u" ("swift_ucol_strcoll"). Its C++ namespace also contains the version.
  private static func isUnicode(_ name: Substring) -> Bool {
    if name.hasPrefix("_ZN6icu_") || name.hasPrefix("_ZNK6icu_") { return true }
    guard name.first == "u", unicode.contains(name.prefix { $0 != "_" }), let end = name.lastIndex(of: "_") else {
      return false
    }
    let version = name[name.index(after: end)...]
    return name.startIndex != name.base.startIndex || (version.count == 2 && version.allSatisfy(\.isNumber))
  }

  /// Whether `name` belongs to Core Foundation: the prefix CF, a type, and an operation.
  private static func isCoreFoundation(_ name: Substring) -> Bool {
    let name = name.drop { $0 == "_" }
    guard name.hasPrefix("CF") else { return false }
    if name.hasPrefix("CFRUNLOOP_") { return true }
    return coreFoundation.contains { name.dropFirst(2).hasPrefix($0) }
  }

  private static func words(_ text: StaticString) -> Set<Substring> {
    Set("\(text)".split { $0 == " " || $0 == "\n" })
  }

  private static let unicode = words(
    """
    u ubidi ubrk ucal ucasemap ucnv ucol ucurr udat udatpg udtitvfmt uenum ufieldpositer ufmt uidna uiter uldn uloc ulocdata
    umsg unorm unorm2 unum unumf unumsys uplrules uprv ureldatefmt ures uregex urbtok uscript usearch uset uspoof usprep
    utext utf8 utmscale utrans utrie2 utrie3 ucptrie ucpmap uhash uarrsort uameasfmt uatmufmt uatimezone ualoc uplrule
    udatintv uaprv uadatpg uacal ulocimp uresb uvector
    """
  )

  private static let coreFoundation = [
    "Allocator", "Array", "Attributed", "Bag", "Basic", "Big", "Binary", "Bit", "Boolean", "Bundle", "Burst",
    "Calendar", "Character", "Data", "Date", "Dictionary", "Error", "KeyedArchiver", "Locale", "MachPort",
    "MessagePort", "Notification", "Null", "Number", "PlugIn", "Preferences", "Property", "ReadStream", "Regular",
    "RunLoop", "Runtime", "Set", "Socket", "Storage", "Stream", "String", "TimeZone", "Tree", "URI", "URL", "UUID",
    "Uni", "WriteStream", "Get", "Retain", "Release", "Equal", "Hash", "Copy", "Absolute", "QSort", "Sort",
  ]

  private static let swift = words(
    """
    addNewDSOImage allocBox allocEmptyBox allocError allocObject allocateGenericClassMetadata
    allocateGenericClassMetadataWithLayoutString allocateGenericValueMetadata
    allocateGenericValueMetadataWithLayoutString allocateMetadataPack allocateWitnessTablePack
    arrayAssignWithCopyBackToFront arrayAssignWithCopyFrontToBack arrayAssignWithCopyNoAlias arrayAssignWithTake
    arrayDestroy arrayInitWithCopy arrayInitWithTakeBackToFront arrayInitWithTakeFrontToBack
    arrayInitWithTakeNoAlias assignExistentialWithCopy asyncLet_begin asyncLet_consume asyncLet_consume_throwing
    asyncLet_finish asyncLet_get asyncLet_get_throwing autoDiffAllocateSubcontext
    autoDiffAllocateSubcontextWithType autoDiffCreateLinearMapContext autoDiffCreateLinearMapContextWithType
    autoDiffProjectTopLevelSubcontext beginAccess bincompat_useLegacyNonCrashingExecutorChecks bridgeObjectRelease
    bridgeObjectRelease_n bridgeObjectRetain bridgeObjectRetain_n bufferAllocate checkMetadataState clearSensitive
    compareProtocolConformanceDescriptors compareTypeContextDescriptors compareWitnessTables
    concurrency_jobPriority conformsToProtocol conformsToProtocol2 conformsToProtocolCommon
    conformsToProtocolWithExecutionContext continuation_await continuation_init continuation_logFailedCheck
    continuation_resume continuation_throwingResume continuation_throwingResumeWithError
    copyAuxiliaryExecutablePath copyKeyPathTrivialIndices copyPOD coroFrameAlloc createDefaultExecutors
    createDefaultExecutorsOnce createExecutors cvw_allocateGenericClassMetadataWithLayoutString
    cvw_allocateGenericValueMetadataWithLayoutString cvw_arrayAssignWithCopy cvw_assignWithCopy
    cvw_assignWithCopyMultiPayloadEnumFN cvw_assignWithTake cvw_assignWithTakeMultiPayloadEnumFN cvw_destroy
    cvw_destroyMultiPayloadEnumFN cvw_enumFn_getEnumTag cvw_enumSimple_destructiveInjectEnumTag
    cvw_enumSimple_getEnumTag cvw_initEnumMetadataMultiPayloadWithLayoutString
    cvw_initEnumMetadataSingleCaseWithLayoutString cvw_initEnumMetadataSinglePayloadWithLayoutString
    cvw_initStructMetadataWithLayoutString cvw_initWithCopy cvw_initWithCopyMultiPayloadEnumFN cvw_initWithTake
    cvw_initWithTakeMultiPayloadEnumFN cvw_initializeBufferWithCopyOfBuffer
    cvw_initializeBufferWithCopyOfBufferMultiPayloadEnumFN cvw_instantiateLayoutString
    cvw_multiPayloadEnumGeneric_destructiveInjectEnumTag cvw_multiPayloadEnumGeneric_getEnumTag
    cvw_singlePayloadEnumGeneric_destructiveInjectEnumTag cvw_singlePayloadEnumGeneric_getEnumTag
    cvw_singletonEnum_destructiveInjectEnumTag cvw_singletonEnum_getEnumTag deallocBox deallocClassInstance
    deallocError deallocObject deallocPartialClassInstance deallocUninitializedObject defaultActor_deallocate
    defaultActor_deallocateResilient defaultActor_destroy defaultActor_enqueue defaultActor_initialize
    deletedAsyncMethodError deletedAsyncMethodErrorTY0_ deletedCalleeAllocatedCoroutineMethodError
    deletedMethodError demangle disableDynamicReplacementScope dispatchAssertMainQueue dispatchEnqueueGlobal
    dispatchEnqueueMain dispatchEnqueueWithDeadline dispatchMain distributedActor_remote_initialize
    distributed_actor_is_remote distributed_execute_target distributed_getGenericEnvironment
    distributed_getWitnessTables distributed_makeDistributedTargetAccessorNotFoundError dynamicCast
    dynamicCastClass dynamicCastClassUnconditional dynamicCastForeignClassMetatype
    dynamicCastForeignClassMetatypeUnconditional dynamicCastMetatype dynamicCastMetatypeUnconditional
    dynamicCastUnknownClass dynamicCastUnknownClassUnconditional enableDynamicReplacementScope endAccess
    enumFn_getEnumTag enumSimple_destructiveInjectEnumTag enumSimple_getEnumTag enumerateAllMetadataSections
    errorInMain errorRelease errorRetain executor_isComplexEquality findAccessibleFunction float16ToString
    float32ToString float64ToString float80ToString func_getParameterCount func_getParameterTypeInfo
    func_getReturnTypeInfo generic_assignWithCopy generic_assignWithTake generic_destroy generic_initWithCopy
    generic_initWithTake generic_initializeBufferWithCopyOfBuffer generic_instantiateLayoutString
    getAssociatedConformanceWitness getAssociatedConformanceWitnessRelative getAssociatedConformanceWitnessSlow
    getAssociatedTypeWitness getAssociatedTypeWitnessRelative getAssociatedTypeWitnessSlow getAtAnyKeyPath
    getAtKeyPath getAtPartialKeyPath getCanonicalPrespecializedGenericMetadata getCanonicalSpecializedMetadata
    getDefaultExecutor getDispatchQueueForExecutor getDynamicType getEnumCaseMultiPayload
    getEnumTagSinglePayloadGeneric getErrorValue getExistentialMetatypeMetadata getExistentialTypeMetadata
    getExtendedExistentialTypeMetadata getExtendedExistentialTypeMetadata_unique getExtendedExistentialTypeShape
    getExtendedFunctionTypeMetadata getFatalErrorMessageBuffer getFixedArrayTypeMetadata getForeignTypeMetadata
    getFunctionFullNameFromMangledName getFunctionReplacement getFunctionTypeMetadata getFunctionTypeMetadata0
    getFunctionTypeMetadata1 getFunctionTypeMetadata2 getFunctionTypeMetadata3
    getFunctionTypeMetadataDifferentiable getFunctionTypeMetadataGlobalActor getGenericMetadata getKeyPath
    getMainExecutor getMainExecutorTm getMangledTypeName getMetadataKind getMetatypeMetadata
    getMultiPayloadEnumTagSinglePayload getObjectType getOpaqueTypeConformance getOpaqueTypeConformance2
    getOpaqueTypeMetadata getOpaqueTypeMetadata2 getOrigOfReplaceable getRootPath getRuntimeLibraryPath
    getSingletonMetadata getTupleTypeLayout getTupleTypeLayout2 getTupleTypeLayout3 getTupleTypeMetadata
    getTupleTypeMetadata2 getTupleTypeMetadata3 getTypeByMangledName getTypeByMangledNameInContext
    getTypeByMangledNameInContext2 getTypeByMangledNameInContextInMetadataState
    getTypeByMangledNameInContextInMetadataState2 getTypeByMangledNameInEnvironment
    getTypeByMangledNameInEnvironmentInMetadataState getTypeByMangledNode getTypeContextDescriptor getTypeName
    getWitnessTable getWitnessTableRelative get_clock_res get_time initClassMetadata initClassMetadata2
    initEnumMetadataMultiPayload initEnumMetadataMultiPayloadWithLayoutString initEnumMetadataSingleCase
    initEnumMetadataSingleCaseWithLayoutString initEnumMetadataSinglePayload
    initEnumMetadataSinglePayloadWithLayoutString initRawStructMetadata initRawStructMetadata2 initStackObject
    initStaticObject initStructMetadata initStructMetadataWithLayoutString int64ToString intToFloat32 intToFloat64
    isClassType isDeallocating isEscapingClosureAtFileLocation isInConformanceExecutionContext isOptionalType
    isUniquelyReferenced isUniquelyReferencedNonObjC isUniquelyReferencedNonObjC_nonNull
    isUniquelyReferencedNonObjC_nonNull_bridgeObject isUniquelyReferenced_native isUniquelyReferenced_nonNull
    isUniquelyReferenced_nonNull_bridgeObject isUniquelyReferenced_nonNull_native job_alloc job_allocate
    job_dealloc job_deallocate job_getExecutorPrivateData job_getKind job_getPriority job_run
    job_run_on_serial_and_task_executor job_run_on_task_executor job_setPriority keyPathSourceString
    keyPath_copySymbolName keyPath_freeSymbolName lookUpClassMethod makeBoxUnique modifyAtReferenceWritableKeyPath
    modifyAtWritableKeyPath multiPayloadEnumGeneric_destructiveInjectEnumTag multiPayloadEnumGeneric_getEnumTag
    nonDefaultDistributedActor_initialize nonatomic_bridgeObjectRelease nonatomic_bridgeObjectRelease_n
    nonatomic_bridgeObjectRetain nonatomic_bridgeObjectRetain_n nonatomic_release nonatomic_release_n
    nonatomic_retain nonatomic_retain_n nonatomic_unownedRelease nonatomic_unownedRelease_n nonatomic_unownedRetain
    nonatomic_unownedRetainStrong nonatomic_unownedRetainStrongAndRelease nonatomic_unownedRetain_n once projectBox
    readAtKeyPath reflectionMirror_count reflectionMirror_displayStyle reflectionMirror_normalizedType
    reflectionMirror_recursiveChildMetadata reflectionMirror_recursiveChildOffset reflectionMirror_recursiveCount
    reflectionMirror_subscript registerProtocolConformances registerProtocols registerTypeMetadataRecords release
    release_n relocateClassMetadata reportError reportWarning retain retainCount retain_n
    setAtReferenceWritableKeyPath setAtWritableKeyPath setDeallocating
    singlePayloadEnumGeneric_destructiveInjectEnumTag singlePayloadEnumGeneric_getEnumTag
    singletonEnum_destructiveInjectEnumTag singletonEnum_getEnumTag sleep slowAlloc slowDealloc
    stdlib_getTypeByMangledNameUntrusted stdlib_isStackAllocationSafe stdlib_random stdlib_readLine_stdin
    storeEnumTagMultiPayload storeEnumTagSinglePayloadGeneric storeMultiPayloadEnumTagSinglePayload
    swiftValueConformsTo taskGroup_addPending taskGroup_attachChild taskGroup_cancelAll taskGroup_destroy
    taskGroup_initialize taskGroup_initializeWithFlags taskGroup_initializeWithOptions taskGroup_isCancelled
    taskGroup_isEmpty taskGroup_waitAll taskGroup_wait_next_throwing task_addCancellationHandler
    task_addPriorityEscalationHandler task_alloc task_asyncMainDrainQueue task_basePriority task_cancel
    task_cancel_group_child_tasks task_checkIsolated task_create task_createNullaryContinuationJob
    task_create_common task_currentPriority task_dealloc task_dealloc_through task_deinitOnExecutor
    task_donateThreadToGlobalExecutorUntil task_enqueue task_enqueueGlobal task_enqueueGlobalWithDeadline
    task_enqueueGlobalWithDelay task_enqueueMainExecutor task_enqueueOnDispatchQueue task_enqueueTaskOnExecutor
    task_enterThreadLocalContext task_escalate task_exitThreadLocalContext task_future_wait
    task_future_wait_throwing task_getCurrent task_getCurrentExecutor task_getCurrentTaskName
    task_getCurrentThreadPriority task_getJobFlags task_getJobTaskId task_getMainExecutor
    task_getPreferredTaskExecutor task_hasTaskGroupStatusRecord task_immediate task_invokeSwiftCheckIsolated
    task_invokeSwiftIsIsolatingCurrentContext task_isCancelled task_isCurrentExecutor
    task_isCurrentExecutorWithFlags task_isIsolatingCurrentContext task_isMainExecutor task_isOnExecutor
    task_localValueGet task_localValuePop task_localValuePush task_localsCopyTo task_popTaskExecutorPreference
    task_pushTaskExecutorPreference task_removeCancellationHandler task_removePriorityEscalationHandler
    task_reportIllegalTaskLocalBindingWithinWithTaskGroup task_reportUnexpectedExecutor task_startOnMainActor
    task_suspend task_switch time_getResolution time_now tryRetain uint64ToString unboxFromSwiftValueWithType
    unexpectedError unownedCheck unownedRelease unownedRelease_n unownedRetain unownedRetainCount
    unownedRetainStrong unownedRetainStrongAndRelease unownedRetain_n verifyEndOfLifetime weakAssign weakCopyAssign
    weakCopyInit weakDestroy weakInit weakLoadStrong weakRetainCount weakTakeAssign weakTakeInit weakTakeStrong
    willThrow willThrowTyped
    """
  )

  private static let dispatch = words(
    """
    activate after after_f apply apply_f assert_queue assert_queue_barrier assert_queue_not async async_and_wait
    async_and_wait_f async_enforce_qos_class_f async_f atfork_child atfork_parent atfork_prepare barrier_async
    barrier_async_and_wait barrier_async_and_wait_f barrier_async_f barrier_sync barrier_sync_f benchmark
    benchmark_f block_cancel block_create block_create_with_qos_class block_create_with_voucher
    block_create_with_voucher_and_qos_class block_notify block_perform block_testcancel block_wait data_apply
    data_apply_f data_copy_region data_create data_create_alloc data_create_concat data_create_f data_create_map
    data_create_subrange data_create_with_transform data_get_flattened_bytes_4libxpc data_get_size debug debugv
    get_context get_current_queue get_global_queue get_specific group_async group_async_f group_create group_enter
    group_leave group_notify group_notify_f group_wait io_barrier io_barrier_f io_close io_create io_create_f
    io_create_with_io io_create_with_io_f io_create_with_path io_create_with_path_f io_get_descriptor io_read
    io_read_f io_set_high_water io_set_interval io_set_low_water io_write io_write_f main once once_f
    queue_attr_make_initially_inactive queue_attr_make_with_autorelease_frequency queue_attr_make_with_overcommit
    queue_attr_make_with_qos_class queue_create queue_create_with_accounting_override_voucher
    queue_create_with_target queue_get_label queue_get_qos_class queue_get_specific queue_set_label_nocopy
    queue_set_specific queue_set_width read read_f release resume retain semaphore_create semaphore_signal
    semaphore_wait set_context set_finalizer_f set_qos_class set_qos_class_fallback set_qos_class_floor
    set_target_queue source_cancel source_cancel_and_wait source_create source_get_data source_get_extended_data
    source_get_handle source_get_mask source_merge_data source_set_cancel_handler source_set_cancel_handler_f
    source_set_event_handler source_set_event_handler_f source_set_mandatory_cancel_handler
    source_set_mandatory_cancel_handler_f source_set_registration_handler source_set_registration_handler_f
    source_set_timer source_testcancel suspend sync sync_f time walltime workloop_copy_current workloop_create
    workloop_create_inactive workloop_is_current workloop_set_autorelease_frequency workloop_set_cpupercent
    workloop_set_qos_class workloop_set_qos_class_floor write write_f
    """
  )
}
