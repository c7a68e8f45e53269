// Package views serves the console: pages about the past and the present,
// drawn on the server, and the same numbers as JSON.
//
// A view is one page: one handler, one template and one model. A model is a
// projections.Dashboard put into words; a page formats and never computes, so a
// number on it is the number that the CLI and the API give. A fragment is the
// part of a page that changes (#view); a stream sends it again when it has.
//
// Pages work without JavaScript. With it they are live: htmx holds one stream a
// tab and morphs the fragment in place. Nothing is loaded from elsewhere, and
// the content security policy allows nothing inline.
package views
