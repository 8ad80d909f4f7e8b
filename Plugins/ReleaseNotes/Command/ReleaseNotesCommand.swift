public import ArgumentParser
internal import Foundation
internal import ChaparCommands
internal import ChaparCore
internal import ChaparReleaseNotes

/// `chapar release-notes`: the release notes of apps.
///
/// A program that has the module `releaseNotes` gives it to `GatewayProgram` among its commands.
public struct ReleaseNotesCommand: AsyncParsableCommand {
    /// Its name and what it does.
    public static let configuration = CommandConfiguration(
        commandName: "release-notes",
        abstract: "Show the release notes of an app.",
        subcommands: [ReleaseNotesShowCommand.self]
    )

    /// Makes the command; the parser fills it in.
    public init() {}
}

/// `chapar release-notes show`: the list of versions as text, from a configuration or from one document.
struct ReleaseNotesShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Show an app's versions: the current one, older and future ones.",
        discussion: """
            Reads the documents that the configuration's section release_notes names, or one with --file: a property
            list, XML or binary, or JSON. What is wrong or remarkable about it goes to stderr.
            """
    )

    /// When colours are written.
    enum ColorChoice: String, ExpressibleByArgument, CaseIterable {
        case auto, always, none
    }

    @OptionGroup var config: ConfigOption
    @Option(help: "A document, instead of those of a configuration.", completion: .file())
    var file: String?
    @Option(help: "The app; needed when the configuration has several.")
    var app: String?
    @Option(help: "The language tag.")
    var lang: String?
    @Option(help: "The version that the reader has. Default: the published one, with --file the newest.")
    var current: String?
    @Flag(help: "Take a --current that is no version for 0.0.0, as the client library does, and say so.")
    var lenient = false
    @Flag(help: "From right to left.")
    var rtl = false
    @Flag(help: "From left to right.")
    var ltr = false
    @Option(help: "Colours: auto, always or none.")
    var color = ColorChoice.auto
    @Option(help: "The background for colours: light or dark.")
    var theme = "light"
    @Option(help: "The width in columns, at least 20. Default: the terminal's, else 80.")
    var width: Int?
    @Flag(help: "From right to left without padding and direction marks.")
    var plain = false
    @Flag(help: "Write the list as JSON, as the API does.")
    var json = false

    func validate() throws {
        if rtl, ltr { throw ValidationError("Give --rtl or --ltr, not both.") }
        if file != nil, app != nil { throw ValidationError("Give --file or --app, not both.") }
        if let width, width < 20 { throw ValidationError("--width is at least 20.") }
        if let current, !lenient, ReleaseVersion(current) == nil {
            throw ValidationError("--current: \"\(current)\" is no version. Write one to three numbers, such as 1.4.0.")
        }
        if NotesView.Theme(rawValue: theme) == nil { throw ValidationError("--theme is light or dark.") }
    }

    func run() async throws {
        var (view, problems) = try await found()
        if let current {
            let version = version(current)
            if version == nil { problems.append(.badCurrent(current)) }
            view.current = version ?? ReleaseVersion(major: 0)
        }
        for problem in problems { Shell.complain("\(problem)") }
        if json { return Shell.print(view.notes.json(.documented)) }
        view.direction = rtl ? .rtl : ltr ? .ltr : .auto
        view.theme = NotesView.Theme(rawValue: theme) ?? .light
        let hasColor =
            switch color {
            case .auto: Shell.hasColour
            case .always: true
            case .none: false
            }
        let options = NotesText.Options(width: width ?? Shell.columns ?? 80, hasColor: hasColor, isPlain: plain)
        Shell.show(String(NotesText.render(view, options).dropLast()))
    }

    private func version(_ text: String) -> ReleaseVersion? { ReleaseVersion(text, allowsSigns: lenient) }

    private func found() async throws -> (NotesView, [ReleaseNotesProblem]) {
        if let file { return try read(file) }
        let modules = try config.modules()
        guard let module = modules.lazy.compactMap({ $0 as? NotesModule }).first else {
            throw CommandFailure("\(config.path) has no section release_notes; give a document with --file", .usage)
        }
        guard let app = app ?? (module.appIDs.count == 1 ? module.appIDs.first : nil), module.appIDs.contains(app)
        else {
            throw CommandFailure("give one of the apps with --app: \(module.appIDs.joined(separator: ", "))", .usage)
        }
        let (view, problems) = try await module.view(of: app, language: lang)
        guard let view else {
            for problem in problems { Shell.complain("\(problem)") }
            throw CommandFailure("there are no release notes of \(app) in this language")
        }
        return (view, problems)
    }

    private func read(_ file: String) throws -> (NotesView, [ReleaseNotesProblem]) {
        let reading: ReleaseNotesReader.Reading
        do throws(ReleaseNotesReader.Failure) {
            reading = try ReleaseNotesReader.read(file: URL(filePath: file))
        } catch {
            throw CommandFailure(error.description)
        }
        let language = lang ?? "en"
        let newest = current.flatMap { version($0) } ?? reading.notes.entries.first?.number
        let current = newest ?? ReleaseVersion(major: 0)
        let view = NotesView(reading.notes, current: current, language: language, appName: file)
        return (view, reading.warnings + reading.notes.problems(for: current))
    }
}
