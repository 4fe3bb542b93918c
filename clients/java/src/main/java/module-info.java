/** The client of rouse, durable timers that wake code. */
module io.github.rousehq.rouse {
    requires transitive java.net.http;
    requires static jdk.httpserver; // the receiver of callbacks, for tests
    requires static org.jspecify; // annotations, for compilers

    exports io.github.rousehq.rouse;
    exports io.github.rousehq.rouse.model;
    exports io.github.rousehq.rouse.testing;
}
