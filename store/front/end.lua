-- Ends batches whose rows are in the index.
for at = 2, #ARGV do call('HDEL', batches, ARGV[at]) end
return 1
