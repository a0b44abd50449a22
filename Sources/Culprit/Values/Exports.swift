// Makes `import Culprit` sufficient for every type of a report, also with MemberImportVisibility, which requires the
// import of a member's module.
@_exported import CulpritReports
