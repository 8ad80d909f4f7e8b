import ChaparCore

/// A list of versions as one HTML document: no script, nothing from elsewhere, one style for both directions.
///
/// All text is escaped; colours and families were checked when the style was read, so that nothing from data gets into
/// the style sheet as it came.
public enum NotesPage {
    /// The content security policy that a server sends along, so that no script runs and only the page's own style
    /// applies.
    public static let policy =
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; base-uri 'none'; form-action 'none'"

    /// Returns the document.
    public static func html(_ view: NotesView) -> String {
        let direction = view.isRightToLeft ? "rtl" : "ltr"
        let language = escaped(view.language)
        return """
            <!doctype html>
            <html lang="\(language)" dir="\(direction)">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <meta name="color-scheme" content="\(view.theme == .auto ? "light dark" : view.theme.rawValue)">
            <title>\(escaped(view.appName))</title>
            <style>
            \(style(view))
            </style>
            </head>
            <body>
            <main>
            \(list(view))
            </main>
            \(button(view))</body>
            </html>

            """
    }

    // MARK: Structure

    private static func list(_ view: NotesView) -> String {
        guard !view.notes.entries.isEmpty else {
            let words = view.language.hasPrefix("fa") ? "هنوز نسخه‌ای ثبت نشده است." : "There are no versions yet."
            return "<p class=\"empty\">\(words)</p>"
        }
        var isCurrentMarked = false
        let items = view.notes.entries.map { entry in
            let status = view.status(of: entry)
            var attributes = "class=\"\(status.rawValue)\" data-version=\"\(entry.number)\""
            if status == .current {
                // An id is there once, however often the version is.
                if !isCurrentMarked { attributes += " id=\"current\"" }
                isCurrentMarked = true
                attributes += " aria-current=\"true\""
            }
            var lines = ["<li \(attributes)>"]
            if status == .current, let whatsNew = view.style.whatsNew {
                lines.append("<p class=\"whats-new\">\(escaped(whatsNew.text))</p>")
            }
            lines.append("<h2>\(view.title(of: entry))</h2>")
            if !entry.changes.isEmpty {
                lines.append("<ul>")
                lines += entry.changes.map { "<li><bdi>\(escaped($0))</bdi></li>" }
                lines.append("</ul>")
            }
            lines.append("</li>")
            return lines.joined(separator: "\n")
        }
        return "<ol class=\"versions\">\n\(items.joined(separator: "\n"))\n</ol>"
    }

    private static func button(_ view: NotesView) -> String {
        guard let (button, url) = view.review else { return "" }
        return """
            <footer><a class="review" rel="noopener" href="\(escaped(url))">\(escaped(button.title))</a></footer>

            """
    }

    /// Returns text for HTML, in elements and in attributes.
    static func escaped(_ text: String) -> String {
        var escaped = ""
        escaped.reserveCapacity(text.utf8.count)
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case "'": escaped += "&#39;"
            case "\n", "\t": escaped.unicodeScalars.append(scalar)
            // Other control characters have no place in a document.
            case _ where scalar.value < 0x20 || scalar.value == 0x7F: continue
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    // MARK: Style

    private static func style(_ view: NotesView) -> String {
        let light = colors(view) { $0.light }
        let dark = colors(view) { $0.dark }
        let variables =
            switch view.theme {
            case .light: ":root { color-scheme: light; \(light) }"
            case .dark: ":root { color-scheme: dark; \(dark) }"
            case .auto:
                """
                :root { color-scheme: light dark; \(light) }
                @media (prefers-color-scheme: dark) { :root { \(dark) } }
                """
            }
        return variables + "\n" + sheet(view)
    }

    /// Returns the custom properties, with the light or the dark value of each colour.
    private static func colors(_ view: NotesView, _ value: (NotesColor) -> String) -> String {
        let style = view.style
        let button = style.reviewButton ?? NotesStyle.ReviewButton(title: "")
        let colors: [(String, NotesColor)] = [
            ("page", .name("systemBackground")), ("card", .name("secondarySystemBackground")),
            ("line", .name("systemGray5")), ("dot", .name("systemBlue")), ("faint", .name("systemGray5")),
            ("current-title", style.current.titleColor), ("current-changes", style.current.changesColor),
            ("other-title", style.other.titleColor), ("other-changes", style.other.changesColor),
            ("whats-new", style.whatsNew?.textColor ?? .name("label")), ("review", button.backgroundColor),
            ("review-text", button.textColor),
        ]
        return colors.map { "--\($0.0): \(value($0.1));" }.joined(separator: " ")
    }

    private static func font(_ font: NotesFont) -> String {
        let system = "system-ui, -apple-system, \"Segoe UI\", Vazirmatn, Tahoma, sans-serif"
        let family = font.family == "system" ? system : "\"\(font.family)\", \(system)"
        let size = font.size == font.size.rounded() ? "\(Int(clamping: font.size))" : "\(font.size)"
        return "font: \(font.weight.number) \(size)px/1.5 \(family);"
    }

    private static func sheet(_ view: NotesView) -> String {
        let style = view.style
        let current = style.current
        let other = style.other
        return """
            * { box-sizing: border-box; }
            body { margin: 0; background: var(--page); text-align: start; overflow-wrap: anywhere; }
            main { max-width: 40rem; margin: 0 auto; padding: 2rem 1rem 6rem; }
            ol, ul { list-style: none; margin: 0; padding: 0; }
            h2, p { margin: 0; }
            .versions { position: relative; padding-inline-start: 2.25rem; }
            .versions::before { content: ""; position: absolute; inset-block: 0; inset-inline-start: 1rem; width: 3px;
              margin-inline-start: -1.5px; background: var(--line); }
            .versions > li { position: relative; padding: .75rem 0; scroll-margin-block: 30vh; }
            .versions > li::before { content: ""; position: absolute; inset-inline-start: -1.25rem; top: 1.25rem;
              width: .75rem; height: .75rem; margin-inline-start: -.375rem; border-radius: 50%; background: var(--dot); }
            .versions > .old::before { background: var(--faint); }
            .versions > .current { padding: 1rem 1rem 1rem 1rem; margin-inline-start: -2.25rem; padding-inline-start: 2.75rem;
              border-radius: 24px; background: var(--card); }
            .versions > .current::before { inset-inline-start: 1rem; top: 1.6rem;
              box-shadow: 0 0 0 .375rem var(--page); }
            .versions ul { margin-block-start: .25rem; }
            .versions ul > li { position: relative; padding-inline-start: 1.1em; }
            .versions ul > li::before { content: "•"; position: absolute; inset-inline-start: .15em; }
            h2 { color: var(--other-title); \(font(other.titleFont)) }
            .versions ul { color: var(--other-changes); \(font(other.changesFont)) }
            .current h2 { color: var(--current-title); \(font(current.titleFont)) }
            .current ul { color: var(--current-changes); \(font(current.changesFont)) }
            .whats-new { color: var(--whats-new); \(font(current.titleFont)) }
            .empty { color: var(--other-changes); \(font(other.changesFont)) }
            footer { position: fixed; inset-block-end: 0; inset-inline: 0; padding: 8px; background: var(--page); }
            .review { display: block; max-width: 40rem; height: 44px; margin: 0 auto; border-radius: 10px;
              text-align: center; text-decoration: none; overflow: hidden; background: var(--review);
              color: var(--review-text); \(font((style.reviewButton ?? .init(title: "")).font)) line-height: 44px; }
            """
    }
}
