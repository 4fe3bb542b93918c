package io.github.rousehq.rouse;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;

import org.jspecify.annotations.Nullable;

/**
 * Rows of the server, of which pages are read as they are asked for.
 *
 * @param <T> what a row is
 */
public final class AsyncListing<T> {
    private final Function<String, CompletableFuture<Rows<T>>> read;

    /** Rows, and the token of the next page: empty at the end. */
    record Rows<T>(List<T> rows, String next) {}

    AsyncListing(Function<String, CompletableFuture<Rows<T>>> read) {
        this.read = read;
    }

    /**
     * Some rows.
     *
     * @param <T> what a row is
     */
    public static final class Page<T> {
        private final AsyncListing<T> listing;
        private final Rows<T> rows;

        private Page(AsyncListing<T> listing, Rows<T> rows) {
            this.listing = listing;
            this.rows = rows;
        }

        /**
         * Returns the rows. A page can be empty, and others follow.
         *
         * @return the rows
         */
        public List<T> rows() {
            return rows.rows;
        }

        /**
         * Returns whether another page follows.
         *
         * @return false at the end
         */
        public boolean hasNext() {
            return !rows.next.isEmpty();
        }

        /**
         * Reads the page that follows.
         *
         * @return a future of the page
         * @throws java.util.NoSuchElementException if none follows
         */
        public CompletableFuture<Page<T>> next() {
            if (!hasNext()) {
                throw new java.util.NoSuchElementException("no page follows");
            }
            return listing.page(rows.next);
        }
    }

    /**
     * Reads the first page.
     *
     * @return a future of the page
     */
    public CompletableFuture<Page<T>> first() {
        return page("");
    }

    private CompletableFuture<Page<T>> page(String token) {
        return Calls.map(read.apply(token), rows -> new Page<>(this, rows));
    }

    /**
     * Reads all pages, and gives each row to a consumer.
     *
     * @param consumer takes rows, one after another
     * @return a future that ends after the last row
     */
    public CompletableFuture<@Nullable Void> forEach(Consumer<? super T> consumer) {
        return Calls.then(first(), page -> rest(page, consumer), null);
    }

    private CompletableFuture<@Nullable Void> rest(Page<T> page, Consumer<? super T> consumer) {
        page.rows().forEach(consumer);
        return page.hasNext() ? Calls.then(page.next(), next -> rest(next, consumer), null) : CompletableFuture.completedFuture(null);
    }

    /**
     * Reads all pages.
     *
     * @return a future of all rows
     */
    public CompletableFuture<List<T>> all() {
        List<T> rows = new ArrayList<>();
        return Calls.map(forEach(rows::add), end -> rows);
    }
}
